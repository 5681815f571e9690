// Package remake makes again what the database has lost of a table, and the rows can fill: the families of index entries and of
// the indexes of stateful schemes. Package store opens no table that lacks one of them.
package remake

import (
	"context"
	"fmt"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/internal/administer"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// Derived makes the families again that a table lacks, and returns their names; none where it lacks none, or where its rows are
// lost too. They are empty: queries miss rows until [store.Table.Verify] with Repair has filled them. So no other client should have the
// store open. An interrupted call is made again. A table that does not exist is [store.ErrNoTable].
func Derived(ctx context.Context, st *store.Store, table string) (made []string, err error) {
	made, err = administer.Remake(ctx, session.Of(st), table)
	if err != nil {
		err = fmt.Errorf("make again what table %q has lost: %w", table, err)
	}
	return made, err
}
