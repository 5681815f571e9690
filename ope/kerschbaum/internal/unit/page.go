package unit

import (
	"bytes"
	"fmt"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/internal/record"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
)

// A Page is what a read returned.
type Page struct {
	Unit     *Unit
	Meta     ope.Meta
	Header   *Header         // if the read began at label 0 and the unit has one
	Part     *Part           // the same
	Elements []order.Element // ascending by label
	More     bool
}

// Open opens what was read of a unit, from label 0 on or not. Of the elements that another unit has by now, there are none.
func (u *Unit) Open(view ope.View, first bool) (Page, error) {
	p := Page{Unit: u, Meta: view.Meta, More: view.More}
	records := view.Records
	if first {
		var err error
		if records, err = p.openFirst(records); err != nil {
			return p, err
		}
	}
	all := make([]order.Element, len(records))
	err := u.sealer.OpenAll(len(records), func(o *record.Opener, i int) (err error) {
		all[i], err = u.openElement(o, records[i])
		return err
	})
	if err != nil {
		return p, err
	}
	p.Elements = all[:0]
	for i, e := range all {
		if p.Part != nil && e.Label.Less(p.Part.Low.Label) {
			continue // it is about to be deleted
		}
		if n := len(p.Elements); n > 0 && (!p.Elements[n-1].Label.Less(e.Label) || !p.Elements[n-1].Rises(e)) {
			return p, u.Corrupt(fmt.Errorf("%w: record %x is out of order", order.ErrCorrupt, records[i].Key))
		}
		p.Elements = append(p.Elements, e)
	}
	return p, nil
}

// openFirst opens the records of label 0, and returns the others.
func (p *Page) openFirst(records []ope.Record) ([]ope.Record, error) {
	if len(records) > 0 && bytes.Equal(records[0].Key, HeaderKey) {
		if p.Meta.State == ope.StateAbsent { // whoever writes a header opens the unit
			return nil, p.Unit.Corrupt(fmt.Errorf("%w: it has a header, but was never opened", order.ErrCorrupt))
		}
		h, err := p.Unit.OpenHeader(records[0])
		if err != nil {
			return nil, err
		}
		p.Header, records = &h, records[1:]
	} else if p.Meta.State != ope.StateAbsent {
		return nil, p.Unit.Corrupt(fmt.Errorf("%w: its header is missing", order.ErrCorrupt))
	}
	if len(records) > 0 && bytes.Equal(records[0].Key, PartKey) {
		r, err := p.Unit.OpenPart(records[0])
		if err != nil {
			return nil, err
		}
		p.Part, records = &r, records[1:]
	} else if p.Meta.State == ope.StateDivided {
		return nil, p.Unit.Corrupt(fmt.Errorf("%w: what part of the index it has is missing", order.ErrCorrupt))
	}
	return records, nil
}

// PartOf returns which part of the index the unit has, of which label 0 was read.
func (p Page) PartOf() Part {
	if p.Part != nil {
		return *p.Part
	}
	return Whole(p.Unit.codec.Domain)
}

// Run returns the elements of a page that was read from left to right, with those of both that it reaches.
func (p Page) Run(left, right order.Element) ([]order.Element, error) {
	run := p.Elements
	if left.Shape.Depth == 0 {
		run = append([]order.Element{left}, run...)
	} else if len(run) == 0 || run[0] != left {
		return nil, p.Unit.Corrupt(fmt.Errorf("%w: record %x is gone", order.ErrCorrupt, left.Label.Bytes()))
	}
	if !p.More {
		run = append(run, right)
	}
	return run, nil
}
