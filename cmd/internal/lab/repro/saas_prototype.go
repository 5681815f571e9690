package repro

import (
	"context"
	"encoding/binary"

	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Prototype A of Rafique et al. (IEEE BigData 2017), section II-C: the plain attributes of an entry
// are a row, found by MAC(table, id, tenant). Each encrypted attribute is a row of a second table,
// which is for all tables, found by MAC(table, id, tenant, attribute). The paper's key is in the
// clear; the hash keeps what the database sees the same as with tables of this module.

// prototypeSpecs returns the families of the plain rows and of the encrypted attributes. Each row is
// a partition.
func prototypeSpecs(w *workspace, name string) (plain, encrypted driver.FamilySpec) {
	return w.spec(name+"p", logMACSize), w.spec(name+"e", logMACSize)
}

func makePrototypeA(ctx context.Context, w *workspace, name string, _ int) error {
	plain, encrypted := prototypeSpecs(w, name)
	if _, err := w.family(ctx, plain); err != nil {
		return err
	}
	_, err := w.family(ctx, encrypted)
	return err
}

type prototypeATable struct {
	table            string
	mac              []byte
	sealer           *seal.Sealer
	plain, encrypted driver.Family
	sensitive        int
	parallel         bool // requests are sent all at a time
}

func openPrototypeA(parallel bool) func(context.Context, *workspace, *store.Store, driver.DB, string, int) (logTable, error) {
	return func(ctx context.Context, w *workspace, _ *store.Store, db driver.DB, name string, sensitive int) (logTable, error) {
		p := &prototypeATable{table: name, mac: logKey(w, "mac"), sensitive: sensitive, parallel: parallel}
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

func (p *prototypeATable) row(id int64, tenant string, attribute int) []byte {
	name := ""
	if attribute >= 0 {
		name = entryNames[attribute]
	}
	return logMAC(p.mac, p.table, id, tenant, name)
}

// place says where an encrypted attribute stands.
func (p *prototypeATable) place(id int64, tenant string, attribute int) seal.Place {
	return seal.Place(nil).Append([]byte(p.table), binary.BigEndian.AppendUint64(nil, uint64(id)), []byte(tenant), []byte(entryNames[attribute]))
}

func (p *prototypeATable) put(ctx context.Context, e entry) error {
	return p.each(ctx, func(ctx context.Context, attribute int) error {
		m := driver.Mutation{Row: p.row(e.id, e.tenant, attribute)}
		if attribute >= 0 {
			sealed := p.sealer.Seal(nil, seal.Header{}, []byte(e.attributes[attribute]), p.place(e.id, e.tenant, attribute))
			m.Puts = []driver.Cell{{Qualifier: []byte{}, Value: sealed}}
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
		value, _, err := p.sealer.Open(nil, cells[0].Value, p.place(id, tenant, attribute))
		e.attributes[attribute] = string(value)
		return err
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
