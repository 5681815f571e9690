package stores

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Only a server that is silent is named: not while somebody types a password, and not twice.
func TestWaitingForServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var texts []string
		say := func(text string) {
			mu.Lock()
			defer mu.Unlock()
			texts = append(texts, text)
		}
		said := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return texts
		}
		ask, stop := waiting("--store", "cassandra://127.0.0.1/x?user=me", func(context.Context, string) ([]byte, error) {
			time.Sleep(time.Hour)
			return []byte("secret"), nil
		}, say)
		_, err := ask(t.Context(), "password: ")
		require.NoError(t, err)
		time.Sleep(patience - 1)
		require.Empty(t, said())
		time.Sleep(time.Minute)
		require.Len(t, said(), 1)
		require.Contains(t, said()[0], "cassandra://127.0.0.1/x?user=me does not answer yet")
		stop()
		_, stop = waiting("--store", "hbase://127.0.0.1", nil, say)
		time.Sleep(patience - 1)
		stop()
		time.Sleep(time.Hour)
		require.Len(t, said(), 1)
	})
}
