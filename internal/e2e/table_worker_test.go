package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// tableScheme is the order's Scheme of a process that uses a table. It reports, besides what every
// worker does:
//
//	call JSON      of a call that begins, and once more when it has ended
//	rebalanced     it has rebalanced the index of the mutable column
//	torn ID        a row was torn, and is mended
const tableScheme = "table"

var lineMu sync.Mutex // goroutines write whole lines

func line(format string, args ...any) {
	text := fmt.Appendf(nil, format+"\n", args...)
	lineMu.Lock()
	defer lineMu.Unlock()
	_, _ = os.Stdout.Write(text)
}

// workTable has two clients use a table until the process is killed or, with Values, has one look at
// these rows and at everything else.
func workTable(ctx context.Context, o order, db driver.DB, key ope.Key) error {
	c, err := connect(ctx, o.Number, db, key, o.Table, o.Break, func(k call) {
		text, err := json.Marshal(k)
		if err != nil {
			panic(err)
		}
		line("call %s", text)
	})
	if err != nil {
		return err
	}
	line("ready")
	if o.Values == nil {
		failed := make(chan error)
		for n := range 2 {
			client := c.processClient(n, o.Seed)
			go func() {
				for {
					if err := client.step(ctx); err != nil {
						failed <- err
					}
				}
			}()
		}
		return <-failed
	}
	client := c.processClient(0, o.Seed)
	torn, err := client.look(ctx, o.Values)
	if err != nil {
		return err
	}
	for _, id := range torn {
		line("torn %d", id)
	}
	if err := verify(ctx, c.table); err != nil {
		return err
	}
	line("done")
	return db.Close()
}

func (c *connection) processClient(n int, seed uint64) *client {
	client := c.client(n, seed)
	client.wrong = func(format string, args ...any) { line("wrong "+format, args...) }
	client.later = func(err error) { line("later %v", err) }
	client.rebalanced = func() { line("rebalanced") }
	return client
}

// verify has the table itself be looked through.
func verify(ctx context.Context, table *store.Table) error {
	var faults []error
	v, err := table.Verify(ctx, &store.VerifyOptions{Fault: func(f inspect.Fault) {
		faults = append(faults, fmt.Errorf("%s of column %q at %x: %w", f.Kind, f.Column, f.Place, f.Err))
	}})
	if err != nil {
		return err
	}
	if !v.Sound() {
		return fmt.Errorf("the table is not sound: %v: %w", v.Faults, errors.Join(faults...))
	}
	return nil
}
