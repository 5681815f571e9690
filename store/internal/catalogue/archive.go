package catalogue

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
)

// Earlier keys of a table, which few rows are under, have cells of their own, so that the entry does not grow with each rotation:
//
//	0x05 || table id || number, 4 bytes
//
// The change of the entry that names a cell puts it, and nobody changes it but who removes the keys.
const archiveEntry = 5

func archiveOf(table meta.TableID) []byte { return slices.Concat([]byte{archiveEntry}, table[:]) }

func archiveCell(table meta.TableID, n uint32) []byte {
	return binary.BigEndian.AppendUint32(archiveOf(table), n)
}

// sealArchive returns a cell of an archive.
func (c *Catalogue) sealArchive(table meta.TableID, n uint32, keys meta.ArchivedKeys) driver.Cell {
	return c.sealOwn(archiveCell(table, n), keys)
}

// Archived reads cells of the archive of a table, which are there.
func (c *Catalogue) Archived(ctx context.Context, table meta.TableID, a meta.Archive) ([]meta.ArchivedKeys, error) {
	cells, err := c.Family.Get(ctx, Row, driver.Slice{Start: archiveCell(table, a.From), End: archiveCell(table, a.To)})
	if err != nil {
		return nil, err
	}
	if len(cells) != int(a.To-a.From) {
		return nil, fmt.Errorf("%w: the catalogue has %d of the %d cells with earlier keys of a table", fault.ErrTampered, len(cells), a.To-a.From)
	}
	all := make([]meta.ArchivedKeys, len(cells))
	for i, cell := range cells {
		all[i], err = openOwn[meta.ArchivedKeys](c, "earlier keys of a table", archiveCell(table, a.From+uint32(i)), cell.Value)
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// archives returns the cells that a change puts besides those of the tree: earlier keys that move out of an entry, and nothing in
// place of those that no entry names any more.
func (e *Edit) archives() []driver.Cell {
	cells, named := slices.Clone(e.moved), make(map[meta.TableID]meta.Archive)
	for _, entry := range e.puts {
		if t := entry.Table; t != nil {
			named[t.ID] = t.Archived
		}
	}
	for q := range e.puts {
		before := e.entries[q].Table
		if before == nil {
			continue
		}
		now := named[before.ID]
		for n := before.Archived.From; n < before.Archived.To; n++ {
			if n < now.From || n >= now.To {
				cells = append(cells, e.c.sealArchive(before.ID, n, meta.ArchivedKeys{}))
			}
		}
	}
	return cells
}
