package hbasesource

import (
	"context"
	"fmt"

	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

// A Client makes an application's writes of the source and of the encrypted table, while a migration goes on. Writes of other
// tables go through unchanged. Reads go to the application's own client.
//
// A call ends with its context, and with that of its request. Where only the former has ended, the request may still be made.
type Client struct {
	client gohbase.Client
	source *Source
	mirror *migrate.Mirror
}

// NewClient returns a client that makes its writes by the application's own. The mirror is that of the migration from the source.
func NewClient(client gohbase.Client, source *Source, mirror *migrate.Mirror) *Client {
	return &Client{client, source, mirror}
}

// Put puts cells of a row, as gohbase does. What it, Delete, Append, Increment and CheckAndPut return about the encrypted table is as
// [migrate.Mirror.Write] says. Cells that are left out are put also into a row whose key the mapping does not read.
func (c *Client) Put(ctx context.Context, m *hrpc.Mutate) (*hrpc.Result, error) {
	return write(ctx, c, m, c.client.Put)
}

// Delete deletes a row, or cells of one. It may be one whose key the mapping does not read: the encrypted table has none of these.
func (c *Client) Delete(ctx context.Context, m *hrpc.Mutate) (*hrpc.Result, error) {
	return write(ctx, c, m, c.client.Delete)
}

// Append appends to cells of a row.
func (c *Client) Append(ctx context.Context, m *hrpc.Mutate) (*hrpc.Result, error) {
	return write(ctx, c, m, c.client.Append)
}

// Increment adds to a cell of a row, and returns the sum.
func (c *Client) Increment(ctx context.Context, m *hrpc.Mutate) (sum int64, err error) {
	return write(ctx, c, m, c.client.Increment)
}

// CheckAndPut puts cells of a row if one of its cells has a value.
func (c *Client) CheckAndPut(ctx context.Context, m *hrpc.Mutate, family, qualifier string, expected []byte) (done bool, err error) {
	return write(ctx, c, m, func(m *hrpc.Mutate) (bool, error) { return c.client.CheckAndPut(m, family, qualifier, expected) })
}

// deletes reports whether it is a deletion, whichever method it is given to.
func deletes(m *hrpc.Mutate) bool {
	return m.Description() == pb.MutationProto_DELETE.String()
}

// ignored reports whether it is about cells only that no column has and that are left out.
func (c *Client) ignored(m *hrpc.Mutate) bool {
	for family, cells := range m.Values() {
		for qualifier := range cells {
			name := family + ":" + qualifier
			if _, known := c.source.cells[name]; known || !c.source.mapping.ignores(name) {
				return false
			}
		}
	}
	return true
}

// write makes a request, and has the encrypted table follow if it is one of the source.
func write[T any](ctx context.Context, c *Client, m *hrpc.Mutate, do func(*hrpc.Mutate) (T, error)) (result T, err error) {
	apply := func(ctx context.Context) (err error) {
		if err := ctx.Err(); err != nil {
			return err
		}
		// Gohbase heeds the context of the request alone, and tries for ever where that has no end.
		var inTime bool
		if result, inTime, err = pause.Within(ctx, func() (T, error) { return do(m) }); !inTime {
			err = fmt.Errorf("hbasesource: no answer to the write, which may still be made: %w", pause.Ended(ctx))
		}
		return err
	}
	if !c.source.is(string(m.Table())) {
		err = apply(ctx)
		return result, err
	}
	key, err := c.source.mapping.readKey(m.Key())
	switch {
	case err != nil && (deletes(m) || c.ignored(m)): // the encrypted table has nothing of it
		err = c.mirror.Write(ctx, nil, apply)
	case err != nil:
		err = c.mirror.WriteUnfit(ctx, fmt.Errorf("hbasesource: the row cannot be in the encrypted table: %w", err), apply)
	default:
		err = c.mirror.Write(ctx, []store.Row{key}, apply)
	}
	return result, err
}
