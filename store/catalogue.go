package store

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// The catalogue is one wide row of its own family (Ferretti, Colajanni, Marchetti, SecureDBaaS,
// 2014, keep encrypted metadata in the database in the same way). Its cells:
//
//	qualifier                           value
//	0x00                                the root: format, then sealed {database id, version}
//	0x01 || HMAC(table name), 32 bytes  sealed table meta, or a sealed tombstone
//
// Every change is one compare-and-set on the root, whose version rises by one, so that changes of
// independent clients are in one order. A client reads the entries that it needs.
type catalogue struct {
	family   driver.Family
	sealer   *seal.Sealer
	names    ope.Key
	database databaseID
}

const (
	catalogueFamily = "catalogue"
	catalogueFormat = 1
)

var (
	catalogueRow  = []byte("catalogue")
	rootQualifier = []byte{0}
)

// entryKind is the first byte of a qualifier of the catalogue.
const tableEntry = 1

type root struct {
	Database databaseID `json:"database"`
	Version  uint64     `json:"version"`
}

// openCatalogue reads the root and makes it when there is none.
func openCatalogue(ctx context.Context, db driver.DB, master ope.Key) (*catalogue, error) {
	family, err := db.Family(ctx, driver.FamilySpec{Name: catalogueFamily, Layout: driver.LayoutWide})
	if err != nil {
		return nil, err
	}
	c := &catalogue{
		family: family,
		sealer: sealer(master.Derive("catalogue", "seal")),
		names:  master.Derive("catalogue", "names"),
	}
	// An unknown outcome or a lost race are both resolved by reading again.
	for range 10 {
		current, cell, err := c.root(ctx)
		if err != nil {
			return nil, err
		}
		if cell != nil {
			c.database = current.Database
			return c, nil
		}
		fresh := root{Version: 1}
		rand.Read(fresh.Database[:])
		_, err = family.CheckAndPut(ctx, catalogueRow, driver.Cell{Qualifier: rootQualifier},
			driver.Cell{Qualifier: rootQualifier, Value: c.sealRoot(fresh)})
		if err != nil && !errors.Is(err, driver.ErrUnknownOutcome) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: the catalogue could not be made", driver.ErrUnavailable)
}

func (c *catalogue) sealRoot(r root) []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic("store: " + err.Error()) // an id and an integer always marshal
	}
	return c.sealer.Seal([]byte{catalogueFormat}, newHeader(), b, place("catalogue", rootQualifier))
}

// root returns the root and its cell, which is nil when there is no catalogue yet.
func (c *catalogue) root(ctx context.Context) (root, []byte, error) {
	cells, err := c.family.Get(ctx, catalogueRow, driver.Slice{Limit: 1})
	if err != nil || len(cells) == 0 {
		return root{}, nil, err
	}
	if string(cells[0].Qualifier) != string(rootQualifier) {
		// A new one would have another id, and no table of the old could be read with it.
		return root{}, nil, fmt.Errorf("%w: the root of the catalogue is gone", ErrTampered)
	}
	r, err := c.openRoot(cells[0].Value)
	return r, cells[0].Value, err
}

func (c *catalogue) openRoot(value []byte) (root, error) {
	var r root
	if len(value) == 0 || value[0] != catalogueFormat {
		return r, fmt.Errorf("%w: the catalogue has format %d, this version reads %d; use the version that wrote it or a later one",
			ErrFormat, append(value, 0)[0], catalogueFormat)
	}
	b, _, err := c.sealer.Open(nil, value[1:], place("catalogue", rootQualifier))
	if err != nil {
		return r, fmt.Errorf("catalogue: %w", sealError(err))
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%w: catalogue: %w", ErrFormat, err)
	}
	return r, nil
}

// qualifier returns the place of a table's entry. It shows nothing of the name but whether two
// are equal.
func (c *catalogue) qualifier(name string) []byte {
	mac := hmac.New(sha256.New, c.names.Secret())
	mac.Write([]byte(name))
	return mac.Sum([]byte{tableEntry})
}

// table returns the meta of a table.
func (c *catalogue) table(ctx context.Context, name string) (*tableMeta, error) {
	q := c.qualifier(name)
	cells, err := c.family.Get(ctx, catalogueRow, driver.Slice{Only: [][]byte{q}})
	if err != nil {
		return nil, err
	}
	if len(cells) == 0 {
		return nil, ErrNoTable
	}
	meta, err := c.openEntry(cells[0])
	if err == nil && meta == nil {
		err = ErrNoTable
	}
	return meta, err
}

// tables returns the metas of all tables, by name.
func (c *catalogue) tables(ctx context.Context) ([]*tableMeta, error) {
	cells, err := c.family.Get(ctx, catalogueRow, driver.Slice{Start: []byte{tableEntry}, End: []byte{tableEntry + 1}})
	if err != nil {
		return nil, err
	}
	var metas []*tableMeta
	for _, cell := range cells {
		meta, err := c.openEntry(cell)
		if err != nil {
			return nil, err
		}
		if meta != nil {
			metas = append(metas, meta)
		}
	}
	slices.SortFunc(metas, func(a, b *tableMeta) int { return strings.Compare(a.Name, b.Name) })
	return metas, nil
}

// openEntry returns the meta of an entry, or nil for a tombstone, which is an empty plaintext.
func (c *catalogue) openEntry(cell driver.Cell) (*tableMeta, error) {
	b, _, err := c.sealer.Open(nil, cell.Value, place("catalogue", cell.Qualifier))
	if err != nil {
		return nil, fmt.Errorf("catalogue: %w", sealError(err))
	}
	if len(b) == 0 {
		return nil, nil
	}
	meta := new(tableMeta)
	if err := json.Unmarshal(b, meta); err != nil {
		return nil, fmt.Errorf("%w: catalogue entry: %w", ErrFormat, err)
	}
	if string(c.qualifier(meta.Name)) != string(cell.Qualifier) {
		return nil, fmt.Errorf("catalogue: %w", ErrTampered)
	}
	return meta, nil
}

func (c *catalogue) add(ctx context.Context, meta *tableMeta) error {
	return c.change(ctx, meta.Name, func(current *tableMeta) ([]byte, error) {
		if current == nil {
			return meta.marshal(), nil
		}
		if current.ID == meta.ID {
			return nil, nil // an earlier attempt of ours
		}
		return nil, ErrExists
	})
}

func (c *catalogue) remove(ctx context.Context, name string) (*tableMeta, error) {
	var removed *tableMeta
	err := c.change(ctx, name, func(current *tableMeta) ([]byte, error) {
		switch {
		case current != nil && (removed == nil || removed.ID == current.ID):
			removed = current
			return []byte{}, nil
		case removed != nil:
			return nil, nil // an earlier attempt of ours
		}
		return nil, ErrNoTable
	})
	return removed, err
}

// change replaces the entry of name by what next returns for the current one, under one
// compare-and-set of the root; a nil entry means that nothing is left to do. next is called again
// when another client was faster, or when it is not known whether the change was made.
func (c *catalogue) change(ctx context.Context, name string, next func(*tableMeta) ([]byte, error)) error {
	q := c.qualifier(name)
	for attempt := 0; ; attempt++ {
		cells, err := c.family.Get(ctx, catalogueRow, driver.Slice{Only: [][]byte{rootQualifier, q}})
		if err != nil {
			return err
		}
		if len(cells) == 0 || string(cells[0].Qualifier) != string(rootQualifier) {
			return fmt.Errorf("%w: the catalogue is gone", ErrTampered)
		}
		var current *tableMeta
		if len(cells) == 2 {
			if current, err = c.openEntry(cells[1]); err != nil {
				return err
			}
		}
		entry, err := next(current)
		if err != nil || entry == nil {
			return err
		}
		r, err := c.openRoot(cells[0].Value)
		if err != nil {
			return err
		}
		r.Version++
		done, err := c.family.CheckAndPut(ctx, catalogueRow, cells[0],
			driver.Cell{Qualifier: rootQualifier, Value: c.sealRoot(r)},
			driver.Cell{Qualifier: q, Value: c.sealer.Seal(nil, newHeader(), entry, place("catalogue", q))})
		switch {
		case err != nil && !errors.Is(err, driver.ErrUnknownOutcome):
			return err
		case done:
			return nil
		}
		if err := pause(ctx, attempt); err != nil {
			return err
		}
	}
}

// place returns what a sealed value is bound to: a kind of thing and what names one of them.
func place(kind string, parts ...[]byte) seal.Place {
	return seal.Place(nil).Append([]byte(kind)).Append(parts...)
}

// newHeader returns the header of a value of a new write.
func newHeader() seal.Header {
	var h seal.Header
	rand.Read(h.Write[:])
	return h
}
