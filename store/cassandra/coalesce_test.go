package cassandra

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// What many goroutines write arrives in the order in which each wrote it, in fewer writes of the connection.
func TestCoalescerKeepsFramesWhole(t *testing.T) {
	ours, theirs := net.Pipe()
	counted := &countedConn{Conn: ours}
	c := coalesce(counted)
	const writers, frames, size = 20, 200, 24
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			p := make([]byte, size)
			for i := range frames {
				binary.BigEndian.PutUint32(p, uint32(w))
				binary.BigEndian.PutUint32(p[4:], uint32(i))
				n, err := c.Write(p)
				require.NoError(t, err)
				require.Equal(t, size, n)
				clear(p) // it is the caller's again
			}
		})
	}
	next := make([]uint32, writers)
	p := make([]byte, size)
	for range writers * frames {
		_, err := io.ReadFull(theirs, p)
		require.NoError(t, err)
		w := binary.BigEndian.Uint32(p)
		require.Equal(t, next[w], binary.BigEndian.Uint32(p[4:]))
		next[w]++
	}
	all.Wait()
	require.Less(t, counted.writes, writers*frames/2)
	require.NoError(t, c.Close())
}

// A write that fails closes the connection, so that nobody waits for an answer; those after it say why.
func TestCoalescerThatCannotSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		c := coalesce(ours)
		require.NoError(t, c.SetWriteDeadline(time.Now().Add(time.Second)))
		_, err := c.Write([]byte("nobody reads this"))
		require.NoError(t, err)
		synctest.Wait() // it is being sent
		for range 2 {
			_, err = c.Write(make([]byte, mostWaiting)) // the second one is more than may wait
			require.NoError(t, err)
		}
		begin := time.Now()
		_, err = c.Write([]byte("there is too much in front of this"))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, time.Second, time.Since(begin))
		_, err = theirs.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		require.Error(t, c.SetWriteDeadline(time.Now()))
	})
}

func TestCoalescerThatIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, _ := net.Pipe()
		c := coalesce(ours)
		_, err := c.Write([]byte("nobody reads this"))
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, c.Close())
		_, err = c.Write([]byte("late"))
		require.True(t, errors.Is(err, net.ErrClosed), err)
	})
}

type countedConn struct {
	net.Conn
	writes int // by one goroutine at a time
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.writes++
	return c.Conn.Write(p)
}
