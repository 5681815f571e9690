package saas

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/testbed"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// The prototypes of Rafique et al. (IEEE BigData 2017). In both, the plain attributes of an entry are a
// row, and a second table, which is for all tables, has the encrypted ones, each encrypted by itself.
//
// Prototype A (section II-C) has a row there for each attribute, found by MAC(table, id, tenant,
// attribute). Prototype B (section III) has one partition for all, found by MAC(table, id, tenant),
// and in it a cell for each attribute, which its name finds: EncName is the paper's clustering key.
//
// The paper's keys are in the clear; the hash keeps what the database sees the same as with tables of
// this module. What the paper stores beside each value repeats parts of the key, and is left out.

// prototypeSpecs returns the families of the plain rows and of the encrypted attributes. Each row is
// a partition.
func prototypeSpecs(w *testbed.Workspace, name string) (plain, encrypted driver.FamilySpec) {
	return w.Spec(name+"p", logMACSize), w.Spec(name+"e", logMACSize)
}

func makePrototype(ctx context.Context, w *testbed.Workspace, name string, _ int) error {
	plain, encrypted := prototypeSpecs(w, name)
	if _, err := w.Family(ctx, plain); err != nil {
		return err
	}
	_, err := w.Family(ctx, encrypted)
	return err
}

// A prototype is what both have.
type prototype struct {
	table            string
	mac              []byte
	sealer           *seal.Sealer
	plain, encrypted driver.Family
	sensitive        int
}

func openPrototype(ctx context.Context, w *testbed.Workspace, db driver.DB, name string, sensitive int) (*prototype, error) {
	p := &prototype{table: name, mac: logKey(w, "mac"), sensitive: sensitive}
	var err error
	if p.sealer, err = seal.New(logKey(w, "cells")); err != nil {
		return nil, err
	}
	plain, encrypted := prototypeSpecs(w, name)
	if p.plain, err = db.Family(ctx, plain); err != nil {
		return nil, err
	}
	p.encrypted, err = db.Family(ctx, encrypted)
	return p, err
}

// row returns the key of an entry, -1, or of one of its attributes.
func (p *prototype) row(id int64, tenant string, attribute int) []byte {
	name := ""
	if attribute >= 0 {
		name = entryNames[attribute]
	}
	return logMAC(p.mac, p.table, id, tenant, name)
}

// place says where an encrypted attribute stands.
func (p *prototype) place(id int64, tenant string, attribute int) seal.Place {
	return seal.Place(nil).Append([]byte(p.table), binary.BigEndian.AppendUint64(nil, uint64(id)), []byte(tenant), []byte(entryNames[attribute]))
}

func (p *prototype) seal(e entry, attribute int) []byte {
	return p.sealer.Seal(nil, seal.Header{}, []byte(e.attributes[attribute]), p.place(e.id, e.tenant, attribute))
}

// open sets an encrypted attribute of an entry.
func (p *prototype) open(e *entry, attribute int, sealed []byte) error {
	value, _, err := p.sealer.Open(nil, sealed, p.place(e.id, e.tenant, attribute))
	e.attributes[attribute] = string(value)
	return err
}

type prototypeATable struct {
	*prototype
	parallel bool // requests are sent all at a time
}

func openPrototypeA(parallel bool) func(context.Context, *testbed.Workspace, *store.Store, driver.DB, string, int) (logTable, error) {
	return func(ctx context.Context, w *testbed.Workspace, _ *store.Store, db driver.DB, name string, sensitive int) (logTable, error) {
		p, err := openPrototype(ctx, w, db, name, sensitive)
		return &prototypeATable{p, parallel}, err
	}
}

// each calls do for the plain row, -1, and for each encrypted attribute.
func (p *prototypeATable) each(ctx context.Context, do func(ctx context.Context, attribute int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	if !p.parallel {
		group.SetLimit(1)
	}
	for attribute := -1; attribute < p.sensitive; attribute++ {
		group.Go(func() error { return do(ctx, attribute) })
	}
	return group.Wait()
}

func (p *prototypeATable) put(ctx context.Context, e entry) error {
	return p.each(ctx, func(ctx context.Context, attribute int) error {
		m := driver.Mutation{Row: p.row(e.id, e.tenant, attribute)}
		if attribute >= 0 {
			m.Puts = []driver.Cell{{Qualifier: []byte{}, Value: p.seal(e, attribute)}}
			return p.encrypted.Apply(ctx, m)
		}
		m.Puts = plainCells(e, p.sensitive)
		return p.plain.Apply(ctx, m)
	})
}

func (p *prototypeATable) get(ctx context.Context, id int64, tenant string) (entry, error) {
	e := entry{id: id, tenant: tenant}
	err := p.each(ctx, func(ctx context.Context, attribute int) error {
		family := p.encrypted
		if attribute < 0 {
			family = p.plain
		}
		cells, err := family.Get(ctx, p.row(id, tenant, attribute), driver.Slice{})
		switch {
		case err != nil:
			return err
		case len(cells) == 0:
			return errNoEntry
		case attribute < 0:
			return e.setPlain(cells)
		}
		return p.open(&e, attribute, cells[0].Value)
	})
	return e, err
}

func (p *prototypeATable) remove(ctx context.Context, id int64, tenant string) error {
	return p.each(ctx, func(ctx context.Context, attribute int) error {
		family := p.encrypted
		if attribute < 0 {
			family = p.plain
		}
		return family.Apply(ctx, driver.Mutation{Row: p.row(id, tenant, attribute), DeleteRow: true})
	})
}

// A prototypeBTable asks for the plain row and then for the partition of the encrypted attributes.
type prototypeBTable struct{ *prototype }

func openPrototypeB(ctx context.Context, w *testbed.Workspace, _ *store.Store, db driver.DB, name string, sensitive int) (logTable, error) {
	p, err := openPrototype(ctx, w, db, name, sensitive)
	return prototypeBTable{p}, err
}

func (p prototypeBTable) put(ctx context.Context, e entry) error {
	row := p.row(e.id, e.tenant, -1)
	if err := p.plain.Apply(ctx, driver.Mutation{Row: row, Puts: plainCells(e, p.sensitive)}); err != nil {
		return err
	}
	m := driver.Mutation{Row: row}
	for attribute := range p.sensitive {
		m.Puts = append(m.Puts, driver.Cell{Qualifier: []byte(entryNames[attribute]), Value: p.seal(e, attribute)})
	}
	return p.encrypted.Apply(ctx, m)
}

func (p prototypeBTable) get(ctx context.Context, id int64, tenant string) (entry, error) {
	e, row := entry{id: id, tenant: tenant}, p.row(id, tenant, -1)
	plain, err := p.plain.Get(ctx, row, driver.Slice{})
	if err != nil {
		return e, err
	}
	encrypted, err := p.encrypted.Get(ctx, row, driver.Slice{})
	switch {
	case err != nil:
		return e, err
	case len(plain) == 0 || len(encrypted) == 0:
		return e, errNoEntry
	case len(encrypted) != p.sensitive:
		return e, fmt.Errorf("%w: an entry has %d of %d encrypted attributes", exit.ErrWrongAnswer, len(encrypted), p.sensitive)
	}
	for _, c := range encrypted {
		attribute := slices.Index(entryNames[:p.sensitive], string(c.Qualifier))
		if attribute < 0 {
			return e, fmt.Errorf("%w: an entry has an unknown encrypted attribute", exit.ErrWrongAnswer)
		}
		if err := p.open(&e, attribute, c.Value); err != nil {
			return e, err
		}
	}
	return e, e.setPlain(plain)
}

func (p prototypeBTable) remove(ctx context.Context, id int64, tenant string) error {
	row := driver.Mutation{Row: p.row(id, tenant, -1), DeleteRow: true}
	if err := p.plain.Apply(ctx, row); err != nil {
		return err
	}
	return p.encrypted.Apply(ctx, row)
}
