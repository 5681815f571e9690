package kms_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

var background = context.Background()

// serve starts a service and returns a client of it; before says what becomes of the n-th request,
// from 1 on: 0 is served.
func serve(t *testing.T, before func(n int) (status int)) (*remote, *atomic.Int64) {
	t.Helper()
	h := service(ope.GenerateKey(), "secret")
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := before(int(n.Add(1))); status != 0 {
			http.Error(w, "the text of a proxy", status)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return &remote{url: server.URL, token: "secret", timeout: time.Minute, attempts: 3, pause: time.Millisecond}, &n
}

func always(status int) func(int) int { return func(int) int { return status } }

// What the database keeps is what the service returned, and the key itself is nowhere in it.
func TestRemoteWrappedKeyIsWhatIsStored(t *testing.T) {
	client, _ := serve(t, always(0))
	seen := &recorder{remote: client}
	db := drivertest.NewMemory()
	_, err := store.Open(background, db, seen, nil)
	require.NoError(t, err)
	require.Len(t, seen.keys, 1)
	found := false
	names, err := db.Families(background)
	require.NoError(t, err)
	for _, name := range names {
		f, err := db.Family(background, driver.FamilySpec{Name: name, Layout: driver.LayoutWide})
		require.NoError(t, err)
		cells, err := f.Get(background, []byte("catalogue"), driver.Slice{})
		require.NoError(t, err)
		for _, c := range cells {
			found = found || bytes.Contains(c.Value, seen.wrapped[0])
			require.NotContains(t, string(c.Value), string(seen.keys[0]))
		}
	}
	require.True(t, found)
}

// recorder remembers what was wrapped to what.
type recorder struct {
	*remote
	keys, wrapped [][]byte
}

func (r *recorder) Wrap(ctx context.Context, key []byte) ([]byte, error) {
	wrapped, err := r.remote.Wrap(ctx, key)
	r.keys, r.wrapped = append(r.keys, bytes.Clone(key)), append(r.wrapped, bytes.Clone(wrapped))
	return wrapped, err
}

func TestRemoteAsksAgainWhileItMakesSense(t *testing.T) {
	for _, status := range []int{500, 502, 503, 429} {
		client, n := serve(t, func(n int) int {
			if n < 3 {
				return status
			}
			return 0
		})
		_, err := client.Wrap(background, make([]byte, ope.KeySize))
		require.NoError(t, err)
		require.EqualValues(t, 3, n.Load())

		client, n = serve(t, always(status))
		_, err = client.Wrap(background, make([]byte, ope.KeySize))
		require.True(t, store.Retryable(err))
		require.NotContains(t, err.Error(), "proxy")
		require.EqualValues(t, 3, n.Load())
	}
	for _, status := range []int{400, 401, 403, 404} {
		client, n := serve(t, always(status))
		_, err := client.Wrap(background, make([]byte, ope.KeySize))
		require.Error(t, err)
		require.False(t, store.Retryable(err))
		require.NotContains(t, err.Error(), "secret")
		require.EqualValues(t, 1, n.Load())
	}
}

func TestRemoteOfAnotherMasterKey(t *testing.T) {
	one, _ := serve(t, always(0))
	other, n := serve(t, always(0))
	db := drivertest.NewMemory()
	_, err := store.Open(background, db, one, nil)
	require.NoError(t, err)
	_, err = store.Open(background, db, other, nil)
	require.ErrorIs(t, err, store.ErrWrongKey)
	require.False(t, store.Retryable(err))
	require.EqualValues(t, 1, n.Load())
}

// A service that hangs costs its timeout, and a caller who gives up does not wait for it.
func TestRemoteThatHangs(t *testing.T) {
	hanging := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-hanging:
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(hanging) })

	client := &remote{url: server.URL, timeout: 10 * time.Millisecond, attempts: 2, pause: time.Millisecond}
	_, err := client.Unwrap(background, []byte("wrapped"))
	require.True(t, store.Retryable(err))
	require.ErrorIs(t, err, context.DeadlineExceeded)

	ctx, cancel := context.WithCancel(background)
	time.AfterFunc(20*time.Millisecond, cancel)
	client.timeout = time.Hour
	_, err = store.Open(ctx, drivertest.NewMemory(), client, nil)
	require.ErrorIs(t, err, context.Canceled)
}

func TestRemoteThatAnswersNonsense(t *testing.T) {
	for _, text := range []string{"", "{", "<html>", "{}", `{"data":""}`, `{"data":1}`, `{"data":"` + strings.Repeat("A", 100<<10) + `"}`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(text))
		}))
		client := &remote{url: server.URL, timeout: time.Minute, attempts: 3}
		_, err := client.Unwrap(background, []byte("wrapped"))
		require.ErrorContains(t, err, "not an answer of the service")
		require.False(t, store.Retryable(err))
		server.Close()
	}
}
