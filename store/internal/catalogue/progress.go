package catalogue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/keyring"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
)

// A Progress is that of a conversion, which all clients share. It has a cell of its own in the
// catalogue's row, sealed:
//
//	0x03 || table id [|| token of the tenant in the table]
//
// It is changed by compare-and-set, and does not raise the version of the catalogue.
type Progress struct {
	Round  uint64 `json:"round"`  // rises with each beginning
	Target uint32 `json:"target"` // version of the table's or tenant's entry that rows are converted to
	Parts  []bool `json:"parts"`  // which are done
	Over   bool   `json:"over"`   // all are, and the entry says so
}

const (
	sweepEntry    = 3
	ProgressParts = 64
)

// Continues reports whether progress is of the round that another is of. Rounds count from one again
// where the cell was removed, which nobody does but an operator who is not honest.
func (p Progress) Continues(other Progress) bool {
	return p.Round == other.Round && p.Target == other.Target && len(p.Parts) == len(other.Parts)
}

// Done returns how many parts are done.
func (p Progress) Done() (n int) {
	for _, done := range p.Parts {
		if done {
			n++
		}
	}
	return n
}

// Progress returns the progress of the last conversion that has a cell, and the cell, which is empty if there was none.
func (c *Catalogue) Progress(ctx context.Context, q []byte) (p Progress, cell driver.Cell, err error) {
	cells, err := c.Family.Get(ctx, Row, driver.Slice{Only: [][]byte{q}})
	if err != nil || len(cells) == 0 {
		return Progress{}, driver.Cell{Qualifier: q}, err
	}
	b, _, err := c.Sealer.Open(nil, cells[0].Value, keyring.Place("catalogue", q))
	if err != nil {
		return Progress{}, driver.Cell{}, fmt.Errorf("progress: %w", fault.OfSeal(err))
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return Progress{}, driver.Cell{}, fmt.Errorf("%w: progress: %w", fault.ErrFormat, err)
	}
	return p, cells[0], nil
}

// UpdateProgress replaces the progress by what next makes of it, unless that is nothing, and returns
// what is there then. An unknown outcome is resolved by reading again.
func (c *Catalogue) UpdateProgress(ctx context.Context, q []byte, next func(Progress) (Progress, bool)) (now Progress, err error) {
	err = swap(ctx, c.Family, func(lost *error) (driver.Cell, []driver.Cell, error) {
		p, cell, err := c.Progress(ctx, q)
		*lost = nil
		if err != nil {
			return cell, nil, err
		}
		p.Parts = slices.Clone(p.Parts)
		change := false
		if now, change = next(p); !change {
			return cell, nil, nil
		}
		b, err := json.Marshal(now)
		if err != nil {
			panic("catalogue: " + err.Error()) // numbers always marshal
		}
		return cell, []driver.Cell{{Qualifier: q, Value: c.Sealer.Seal(nil, keyring.NewHeader(), b, keyring.Place("catalogue", q))}}, nil
	})
	return now, err
}

// ProgressOf names the cell of a table's progress, of a tenant where a pseudonym is given.
func ProgressOf(table meta.TableID, pseudonym []byte) []byte {
	return slices.Concat([]byte{sweepEntry}, table[:], pseudonym)
}

// Settle notes which former ids of a table's columns no row has any more, because all of them were
// written under the version swept of the catalogue or a later one. It returns the latest version of
// the entry that all rows are known to follow, which takes in what it has noted itself; or 0 if the entry
// was changed since swept, and nothing was left to note.
func (c *Catalogue) Settle(ctx context.Context, name string, id meta.TableID, swept uint32) (version uint32, err error) {
	err = c.Change(ctx, []string{name}, func(e *Edit) error {
		m, err := e.Find(name, id)
		if err != nil {
			return err
		}
		m = m.Clone()
		settled := false
		for i := range m.Columns {
			f := &m.Columns[i]
			for j := range f.Former {
				if f.Since <= swept && !f.Former[j].Converted {
					f.Former[j].Converted, settled = true, true
				}
			}
		}
		if m.Version <= swept && len(m.Dropped)+len(m.DroppedIndexes) > 0 {
			m.Dropped, m.DroppedIndexes, settled = nil, nil, true
		}
		same := m.Version == swept
		if settled {
			e.Put(m)
		}
		switch {
		case same:
			version = m.Version
		case settled:
			version = swept
		default:
			version = 0
		}
		return nil
	})
	return version, err
}
