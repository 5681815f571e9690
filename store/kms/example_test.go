package kms_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A remote has a service wrap and unwrap the database key. The service keeps the master key, decides
// who may use it and writes down who did; this process never sees it.
type remote struct {
	url, token string
	timeout    time.Duration // of one request
	attempts   int           // at most, while the service is unavailable
	pause      time.Duration // between them, doubling
}

func (r *remote) Wrap(ctx context.Context, key []byte) ([]byte, error) {
	return r.call(ctx, "wrap", key)
}

func (r *remote) Unwrap(ctx context.Context, wrapped []byte) ([]byte, error) {
	return r.call(ctx, "unwrap", wrapped)
}

// call asks again while it makes sense to. Neither call changes anything, so that asking twice is
// harmless.
func (r *remote) call(ctx context.Context, action string, data []byte) ([]byte, error) {
	pause := r.pause
	for attempt := 1; ; attempt++ {
		answer, err := r.ask(ctx, action, data)
		if !errors.Is(err, driver.ErrUnavailable) || attempt == r.attempts {
			return answer, err
		}
		select {
		case <-time.After(pause):
			pause *= 2
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// message is what goes either way; JSON has bytes in base64.
type message struct {
	Data []byte `json:"data"`
}

func (r *remote) ask(ctx context.Context, action string, data []byte) ([]byte, error) {
	body, err := json.Marshal(message{data})
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(limited, http.MethodPost, r.url+"/"+action, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	resp, err := http.DefaultClient.Do(req)
	if ctx.Err() != nil {
		return nil, ctx.Err() // the caller gave up: not the service's fault, and not to be repeated
	}
	if err != nil {
		return nil, unavailable(action, err)
	}
	defer resp.Body.Close()
	// The answer's text goes into no error: who knows what a proxy put there.
	switch {
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode >= 500:
		return nil, unavailable(action, errors.New(resp.Status))
	case resp.StatusCode == http.StatusUnprocessableEntity: // how this service says it
		return nil, fmt.Errorf("key service: %s: %w", action, store.ErrWrongKey)
	case resp.StatusCode != http.StatusOK: // no permission, say: asking again changes nothing
		return nil, fmt.Errorf("key service: %s: %s", action, resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return nil, unavailable(action, err)
	}
	var answer message
	if err := json.Unmarshal(text, &answer); err != nil || len(answer.Data) == 0 {
		return nil, fmt.Errorf("key service: %s: not an answer of the service", action)
	}
	return answer.Data, nil
}

// unavailable returns an error for which store.Retryable says yes.
func unavailable(action string, err error) error {
	return fmt.Errorf("key service: %s: %w: %w", action, driver.ErrUnavailable, err)
}

// service is such a service, for tests. It has one master key.
func service(master ope.Key, token string) http.Handler {
	keeper := kms.NewLocal(master)
	serve := func(do func(context.Context, []byte) ([]byte, error)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+token {
				http.Error(w, "who are you?", http.StatusForbidden)
				return
			}
			var m message
			if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
				http.Error(w, "not a message", http.StatusBadRequest)
				return
			}
			data, err := do(r.Context(), m.Data)
			if err != nil {
				http.Error(w, "not wrapped here", http.StatusUnprocessableEntity)
				return
			}
			_ = json.NewEncoder(w).Encode(message{data}) // to a client that left, perhaps
		}
	}
	mux := http.NewServeMux()
	mux.Handle("POST /wrap", serve(keeper.Wrap))
	mux.Handle("POST /unwrap", serve(keeper.Unwrap))
	return mux
}

// A client of a key management service over HTTP: the service wraps the database key when the
// database is made, the database keeps what is wrapped, and the service unwraps it for whoever
// opens the database and may.
func Example_remoteService() {
	ctx := context.Background()
	server := httptest.NewServer(service(ope.GenerateKey(), "secret"))
	defer server.Close()
	keys := &remote{url: server.URL, token: "secret", timeout: 5 * time.Second, attempts: 3, pause: 100 * time.Millisecond}

	db := drivertest.NewMemory()
	defer db.Close()
	if _, err := store.Open(ctx, db, keys, nil); err != nil {
		fmt.Println(err)
		return
	}
	// Another client.
	st, err := store.Open(ctx, db, keys, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	tables, err := st.Tables(ctx)
	fmt.Println("opened:", len(tables), "tables", err)

	// One that may not.
	_, err = store.Open(ctx, db, &remote{url: server.URL, token: "guessed", timeout: 5 * time.Second, attempts: 3}, nil)
	fmt.Println("refused:", err != nil, "worth repeating:", store.Retryable(err))

	server.Close()
	_, err = store.Open(ctx, db, keys, nil)
	fmt.Println("service down:", err != nil, "worth repeating:", store.Retryable(err))
	// Output:
	// opened: 0 tables <nil>
	// refused: true worth repeating: false
	// service down: true worth repeating: true
}
