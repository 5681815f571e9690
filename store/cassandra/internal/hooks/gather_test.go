package hooks

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// A slow connection sends only when it may.
type slow struct {
	net.Conn
	may  chan error
	sent [][]byte // one for each call of Write
}

func (s *slow) Write(b []byte) (int, error) {
	s.sent = append(s.sent, bytes.Clone(b))
	return len(b), <-s.may
}

func TestGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		s := &slow{Conn: here, may: make(chan error)}
		g := Gather(s)
		write := func(text string) {
			n, err := g.Write([]byte(text))
			require.NoError(t, err)
			require.Equal(t, len(text), n)
		}
		write("first ")
		synctest.Wait()
		write("second ")
		write("third")
		s.may <- nil
		synctest.Wait()
		require.Equal(t, [][]byte{[]byte("first "), []byte("second third")}, s.sent, "what is written while something is sent goes together")
		s.may <- nil

		write("lost")
		synctest.Wait()
		write("never sent")
		broken := errors.New("broken")
		s.may <- broken
		_, err := there.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF, "who waits for an answer learns of it")
		synctest.Wait()
		_, err = g.Write([]byte("late"))
		require.ErrorIs(t, err, broken)
		require.Len(t, s.sent, 3)
		require.NoError(t, g.Close())
		_, err = g.Write([]byte("later"))
		require.ErrorIs(t, err, broken, "the first error stays")
	})
}

// TestGatheredWritersWait looks at a connection that sends nothing for a while, or never again.
func TestGatheredWritersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer there.Close()
		s := &slow{Conn: here, may: make(chan error)}
		g := Gather(s)
		part := make([]byte, mostGathered/4)
		written := make(chan error)
		go func() {
			for {
				_, err := g.Write(part)
				written <- err
				if err != nil {
					return
				}
			}
		}()
		taken := func() (n int) {
			for {
				synctest.Wait()
				select {
				case err := <-written:
					require.NoError(t, err)
					n++
				default:
					return n
				}
			}
		}
		require.Equal(t, 6, taken(), "one is being sent, and five are more than wait")
		s.may <- nil
		require.Equal(t, 5, taken())
		require.NoError(t, g.Close())
		require.ErrorIs(t, <-written, net.ErrClosed)
		s.may <- net.ErrClosed // the one that was being sent
	})
}

// A neverEmpty connection is never asked to send nothing.
type neverEmpty struct {
	net.Conn
	t *testing.T
}

func (c *neverEmpty) Write(b []byte) (int, error) {
	if len(b) == 0 {
		c.t.Error("nothing is sent")
	}
	return c.Conn.Write(b)
}

// TestGatheredInOrder has many goroutines write parts of different lengths, one at a time as gocql does, over TCP.
func TestGatheredInOrder(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	g := Gather(&neverEmpty{Conn: conn, t: t})
	other, err := listener.Accept()
	require.NoError(t, err)
	defer other.Close()

	const writers, each = 32, 500
	var one sync.Mutex
	next := uint32(0)
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for range each {
				one.Lock()
				part := binary.BigEndian.AppendUint32(nil, next)
				part = append(part, make([]byte, next%100)...)
				next++
				_, err := g.Write(part)
				one.Unlock()
				if err != nil {
					t.Errorf("part %d: %v", next, err)
					return
				}
			}
		})
	}
	for i := range uint32(writers * each) {
		part := make([]byte, 4+i%100)
		_, err := io.ReadFull(other, part)
		require.NoError(t, err)
		require.Equal(t, i, binary.BigEndian.Uint32(part))
	}
	group.Wait()
	require.NoError(t, g.Close())
	_, err = other.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}
