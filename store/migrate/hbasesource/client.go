package hbasesource

import (
	"context"
	"fmt"

	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

// A Client makes an application's writes of the source and of the encrypted table, while a migration goes on. Writes of other
// tables go through unchanged. Reads go to the application's own client.
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
// [migrate.Mirror.Write] says.
func (c *Client) Put(ctx context.Context, m *hrpc.Mutate) (r *hrpc.Result, err error) {
	err = c.write(ctx, m, func() (err error) { r, err = c.client.Put(m); return err })
	return r, err
}

// Delete deletes a row, or cells of one. It may be one whose key the mapping does not read: the encrypted table has none of these.
func (c *Client) Delete(ctx context.Context, m *hrpc.Mutate) (r *hrpc.Result, err error) {
	err = c.write(ctx, m, func() (err error) { r, err = c.client.Delete(m); return err })
	return r, err
}

// Append appends to cells of a row.
func (c *Client) Append(ctx context.Context, m *hrpc.Mutate) (r *hrpc.Result, err error) {
	err = c.write(ctx, m, func() (err error) { r, err = c.client.Append(m); return err })
	return r, err
}

// Increment adds to a cell of a row, and returns the sum.
func (c *Client) Increment(ctx context.Context, m *hrpc.Mutate) (sum int64, err error) {
	err = c.write(ctx, m, func() (err error) { sum, err = c.client.Increment(m); return err })
	return sum, err
}

// CheckAndPut puts cells of a row if one of its cells has a value.
func (c *Client) CheckAndPut(ctx context.Context, m *hrpc.Mutate, family, qualifier string, expected []byte) (done bool, err error) {
	err = c.write(ctx, m, func() (err error) { done, err = c.client.CheckAndPut(m, family, qualifier, expected); return err })
	return done, err
}

// deletes reports whether it is a deletion, whichever method it is given to.
func deletes(m *hrpc.Mutate) bool {
	return m.Description() == pb.MutationProto_DELETE.String()
}

func (c *Client) write(ctx context.Context, m *hrpc.Mutate, do func() error) error {
	if !c.source.is(string(m.Table())) {
		return do()
	}
	apply := func(context.Context) error { return do() }
	key, err := c.source.mapping.readKey(m.Key())
	switch {
	case err != nil && deletes(m):
		return c.mirror.Write(ctx, nil, apply)
	case err != nil:
		return c.mirror.WriteUnfit(ctx, fmt.Errorf("hbasesource: the row cannot be in the encrypted table: %w", err), apply)
	}
	return c.mirror.Write(ctx, []store.Row{key}, apply)
}
