package stores

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Why a store is not reached is said of each of its servers, in no words of a client library. The kind of the error stays.
// A connectedTo is an error of a database that was connected to.
type connectedTo struct{ error }

func (c connectedTo) Unwrap() error { return c.error }
func (connectedTo) Connected() bool { return true }

func TestUnreached(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer other.Close()
	go func() { // what is no database
		for {
			c, err := other.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			_ = c.Close()
		}
	}()
	none, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	unused := none.Addr().String()
	require.NoError(t, none.Close())

	open := func(name string) string {
		_, err := Open(t.Context(), name, How{})
		require.ErrorIs(t, err, driver.ErrUnavailable)
		require.NotContains(t, err.Error(), "gocql")
		return err.Error()
	}
	require.Equal(t, "cassandra://"+unused+"/k: nothing listens at "+unused+": start the database, or check the host and port in --store", open("cassandra://"+unused+"/k"))
	is := other.Addr().String() + " accepts connections, and does not answer as Cassandra does: is that Cassandra, whose port is mostly 9042, and has it started?"
	require.Equal(t, "cassandra://"+other.Addr().String()+"/k: "+is, open("cassandra://"+other.Addr().String()+"/k"))
	require.Contains(t, open("cassandra://"+unused+","+other.Addr().String()+"/k"), "in --store; "+is)

	unavailable := running(t.Context(), "--store", "hbase", "//"+other.Addr().String(), driver.ErrUnavailable)
	require.ErrorContains(t, unavailable, "accepts connections, and HBase does not answer: is that its ZooKeeper")
	disagree := fmt.Errorf("%w", connectedTo{driver.ErrUnavailable})
	require.Equal(t, disagree, running(t.Context(), "--store", "cassandra", "//"+other.Addr().String()+"/k", disagree))
	of, err := Reaching(t.Context(), "--from", "hbase://"+unused, nil, func() (string, error) { return "it", driver.ErrUnavailable })
	require.Equal(t, "it", of)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.EqualError(t, err, "hbase://"+unused+": nothing listens at "+unused+": start the database, or check the host and port in --from")
	_, err = Reaching(t.Context(), "--from", "cassandra://"+unused+"/shop.orders", nil, func() (string, error) { return "", driver.ErrUnavailable })
	require.ErrorContains(t, err, "/shop.orders: nothing listens at "+unused)
	for _, err := range []error{nil, driver.ErrUnauthorised, errors.Join(driver.ErrUnavailable, context.Canceled)} {
		require.Equal(t, err, running(t.Context(), "--store", "hbase", "//"+unused, err))
	}
}
