package catalogue

import (
	"bytes"
	"context"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/keyring"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
)

// Some of what the catalogue says has a cell of its own in the catalogue's row, sealed, outside of the tree of entries. It is
// changed by compare-and-set, and does not raise the version of the catalogue.

// readOwn returns what such a cell says, and the cell, which is empty if there is none.
func readOwn[T any](ctx context.Context, c *Catalogue, what string, q []byte) (says T, cell driver.Cell, err error) {
	cells, err := c.Family.Get(ctx, Row, driver.Slice{Only: [][]byte{q}})
	if err != nil || len(cells) == 0 {
		return says, driver.Cell{Qualifier: q}, err
	}
	if says, err = openOwn[T](c, what, q, cells[0].Value); err != nil {
		return says, driver.Cell{}, err
	}
	return says, cells[0], nil
}

// updateOwn replaces what a cell says by what next makes of it, unless that is nothing, and returns what is there then. An
// unknown outcome is resolved by reading again: where an attempt is there, next is not asked what is to be made of that. As long as the
// cell is as it was, an attempt may yet come. Where another client has changed it since, who may have seen an attempt, what is to be made
// once stays of unknown outcome: next would undo what that client did.
func updateOwn[T any](ctx context.Context, c *Catalogue, what string, q []byte, once bool, next func(T) (T, bool)) (now T, err error) {
	var tried []driver.Cell // the attempts, of which no two are equal
	var expected []byte     // by the last one
	err = swap(ctx, c.Family, func(lost *error) (driver.Cell, []driver.Cell, error) {
		says, cell, err := readOwn[T](ctx, c, what, q)
		if err != nil {
			return cell, nil, err
		}
		made := slices.ContainsFunc(tried, func(put driver.Cell) bool { return bytes.Equal(put.Value, cell.Value) })
		passed := !made && !bytes.Equal(cell.Value, expected)
		if passed && once && *lost != nil {
			*lost = changedSince(*lost)
			return cell, nil, nil
		}
		if made || passed {
			*lost = nil
		}
		if made {
			now = says
			return cell, nil, nil
		}
		change := false
		if now, change = next(says); !change {
			return cell, nil, nil
		}
		tried, expected = append(tried, c.sealOwn(q, now)), cell.Value
		return cell, tried[len(tried)-1:], nil
	})
	return now, err
}

// About counts the cells that the catalogue has about a table: its entry, and those of its conversions, its migration and its earlier keys. Those
// that the key of the database does not open are counted apart.
func (c *Catalogue) About(ctx context.Context, table meta.TableID) (sealed, unknown int, err error) {
	sealed = 1 // the entry, by which the table is open
	for _, of := range [][]byte{ProgressOf(table, nil), migrationOf(table), archiveOf(table)} {
		cells, err := c.Family.Get(ctx, Row, driver.Slice{Start: of, End: ope.PrefixEnd(of)})
		if err != nil {
			return 0, 0, err
		}
		for _, cell := range cells {
			if _, _, err := c.Sealer.Open(nil, cell.Value, keyring.Place("catalogue", cell.Qualifier)); err != nil {
				unknown++
			} else {
				sealed++
			}
		}
	}
	return sealed, unknown, nil
}
