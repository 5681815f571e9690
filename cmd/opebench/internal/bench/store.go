package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Errors that say why a store or a table in it cannot be used.
var (
	// ErrNoTable is returned when the store holds no table of the scheme.
	ErrNoTable = errors.New("no such table")

	// ErrExists is returned when a table is to be created that the store holds already.
	ErrExists = errors.New("the table exists")

	// ErrParams is returned when a table was made with other parameters.
	ErrParams = errors.New("made with other parameters")
)

// A Store is a database with a key and a catalogue of tables. The catalogue is one wide row:
// under the qualifier "" a sealed mark by which a wrong key is noticed before anything else, and
// under the name of each table its sealed description. The name of a table is that of its scheme.
type Store struct {
	db        driver.DB
	key       ope.Key
	catalogue driver.Family
	sealer    *seal.Sealer
}

var (
	catalogueSpec = driver.FamilySpec{Name: "opebench", Layout: driver.LayoutWide}
	catalogueRow  = []byte("catalogue")
)

// formatVersion is that of the catalogue and of all that it describes.
const formatVersion = 1

// mark is the sealed value under the empty name.
type mark struct {
	Format int `json:"format"`
}

// description is what the catalogue keeps of a table, as sealed JSON.
type description struct {
	Format int    `json:"format"`
	Family string `json:"family"`
	ID     string `json:"id"`     // 16 random bytes in hex; keys are derived from it
	Scheme string `json:"scheme"` // the scheme's ID
	Codec  string `json:"codec"`  // the codec's ID
	Type   string `json:"type"`
	Column string `json:"column"`
}

// OpenStore opens a store. With create it makes one where the database holds none; otherwise
// that is ErrNoTable. A key that is not the store's is seal.ErrWrongKey.
func OpenStore(ctx context.Context, db driver.DB, key ope.Key, create bool) (*Store, error) {
	if !create {
		families, err := db.Families(ctx)
		if err != nil {
			return nil, err
		}
		found := false
		for _, name := range families {
			found = found || name == catalogueSpec.Name
		}
		if !found {
			return nil, fmt.Errorf("%w: nothing was inserted into this store yet", ErrNoTable)
		}
	}
	catalogue, err := db.Family(ctx, catalogueSpec)
	if err != nil {
		return nil, err
	}
	sealer, err := seal.New(key.Derive("opebench/1", "catalogue").Secret())
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, key: key, catalogue: catalogue, sealer: sealer}
	for {
		cells, err := catalogue.Get(ctx, catalogueRow, driver.Slice{Only: [][]byte{{}}})
		if err != nil {
			return nil, err
		}
		if len(cells) == 0 && !create {
			return nil, fmt.Errorf("%w: nothing was inserted into this store yet", ErrNoTable)
		}
		if len(cells) == 1 {
			var m mark
			if err := s.unseal(cells[0], &m); err != nil {
				return nil, err
			}
			return s, checkFormat(m.Format)
		}
		sealed, err := s.seal("", mark{formatVersion})
		if err != nil {
			return nil, err
		}
		_, err = catalogue.CheckAndPut(ctx, catalogueRow, driver.Cell{Qualifier: []byte{}}, sealed)
		if err != nil && !errors.Is(err, driver.ErrUnknownOutcome) {
			return nil, err
		}
		// Whether it was this one or another client that put the mark, reading it tells.
	}
}

func checkFormat(format int) error {
	if format != formatVersion {
		return fmt.Errorf("%w: the store has format %d, this version of opebench reads format %d", ErrParams, format, formatVersion)
	}
	return nil
}

func cataloguePlace(name []byte) seal.Place {
	return seal.Place(nil).Append([]byte("opebench/1 catalogue"), name)
}

func (s *Store) seal(name string, v any) (driver.Cell, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return driver.Cell{}, err
	}
	return driver.Cell{Qualifier: []byte(name), Value: s.sealer.Seal(nil, b, cataloguePlace([]byte(name)))}, nil
}

func (s *Store) unseal(c driver.Cell, v any) error {
	b, err := s.sealer.Open(nil, c.Value, cataloguePlace(c.Qualifier))
	if errors.Is(err, seal.ErrWrongKey) {
		return fmt.Errorf("the key is not the one this store was made with: %w", err)
	}
	if err != nil {
		return fmt.Errorf("read the catalogue: %w", err)
	}
	return json.Unmarshal(b, v)
}

// Tables returns the names of the tables, in ascending order.
func (s *Store) Tables(ctx context.Context) ([]string, error) {
	cells, err := s.catalogue.Get(ctx, catalogueRow, driver.Slice{Start: []byte{0}})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range cells {
		names = append(names, string(c.Qualifier))
	}
	return names, nil
}

// Info describes a table.
type Info struct {
	Name, SchemeID string
	Kind           Kind
	Column         string
	Family         string
}

// Open opens a table. A store that does not hold it is ErrNoTable.
func (s *Store) Open(ctx context.Context, name string) (Table, Info, error) {
	spec, err := schemeByName(name)
	if err != nil {
		return nil, Info{}, err
	}
	cells, err := s.catalogue.Get(ctx, catalogueRow, driver.Slice{Only: [][]byte{[]byte(name)}})
	if err != nil {
		return nil, Info{}, err
	}
	if len(cells) == 0 {
		names, err := s.Tables(ctx)
		if err != nil {
			return nil, Info{}, err
		}
		if len(names) == 0 {
			return nil, Info{}, fmt.Errorf("%w: nothing was inserted into this store yet", ErrNoTable)
		}
		return nil, Info{}, fmt.Errorf("%w: the store holds no values under %s; it holds %s", ErrNoTable, name, strings.Join(names, ", "))
	}
	var d description
	if err := s.unseal(cells[0], &d); err != nil {
		return nil, Info{}, err
	}
	return s.table(ctx, spec, d)
}

// table opens what a description describes, after checking that this program would make it so.
func (s *Store) table(ctx context.Context, spec schemeSpec, d description) (Table, Info, error) {
	fail := func(err error) (Table, Info, error) {
		return nil, Info{}, fmt.Errorf("table %s: %w", spec.name, err)
	}
	if err := checkFormat(d.Format); err != nil {
		return fail(err)
	}
	kind, err := KindByName(d.Type)
	if err != nil {
		return fail(fmt.Errorf("%w: its type %q is not known to this version of opebench", ErrParams, d.Type))
	}
	if kind.ID != d.Codec {
		return fail(fmt.Errorf("%w: it has codec %q, here %s is %q", ErrParams, d.Codec, d.Type, kind.ID))
	}
	id, err := hex.DecodeString(d.ID)
	if err != nil || len(id) != 16 {
		return fail(fmt.Errorf("%w: its ID is damaged", ErrParams))
	}
	scheme, err := spec.new(s.key.Derive("opebench/1", "order", string(id)), kind.Domain)
	if err != nil {
		return fail(err)
	}
	if scheme.ID() != d.Scheme {
		return fail(fmt.Errorf("%w: it has scheme ID %q, here %s is %q", ErrParams, d.Scheme, spec.name, scheme.ID()))
	}
	// Ciphertexts of a small part of the domain share their first bits, so nothing is spread by
	// them: a database that needs it is told by another layout.
	family, err := s.db.Family(ctx, driver.FamilySpec{Name: d.Family, Layout: driver.LayoutOrdered})
	if err != nil {
		return fail(err)
	}
	var cells *seal.Sealer
	if !spec.plain {
		if cells, err = seal.New(s.key.Derive("opebench/1", "cells", string(id)).Secret()); err != nil {
			return fail(err)
		}
	}
	column, err := newKeyColumn(ctx, family, scheme, cells, id)
	if err != nil {
		return fail(err)
	}
	return column, Info{Name: spec.name, SchemeID: d.Scheme, Kind: kind, Column: d.Column, Family: d.Family}, nil
}

// Create makes an empty table. One that exists is ErrExists or, with replace, dropped.
func (s *Store) Create(ctx context.Context, name string, kind Kind, column string, replace bool) (Table, Info, error) {
	spec, err := schemeByName(name)
	if err != nil {
		return nil, Info{}, err
	}
	scheme, err := SchemeID(name, kind)
	if err != nil {
		return nil, Info{}, err
	}
	var id [16]byte
	rand.Read(id[:])
	d := description{
		Format: formatVersion, Family: "t_" + hex.EncodeToString(id[:8]), ID: hex.EncodeToString(id[:]),
		Scheme: scheme, Codec: kind.ID, Type: kind.Name, Column: column,
	}
	cell, err := s.seal(name, d)
	if err != nil {
		return nil, Info{}, err
	}
	cells, err := s.catalogue.Get(ctx, catalogueRow, driver.Slice{Only: [][]byte{[]byte(name)}})
	if err != nil {
		return nil, Info{}, err
	}
	expect := driver.Cell{Qualifier: []byte(name)}
	var old description
	if len(cells) > 0 {
		if !replace {
			return nil, Info{}, fmt.Errorf("%w: the store holds values under %s already; name another store, or give --replace to drop them", ErrExists, name)
		}
		if err := s.unseal(cells[0], &old); err != nil {
			return nil, Info{}, err
		}
		expect.Value = cells[0].Value
	}
	put, err := s.catalogue.CheckAndPut(ctx, catalogueRow, expect, cell)
	if errors.Is(err, driver.ErrUnknownOutcome) {
		cells, rerr := s.catalogue.Get(ctx, catalogueRow, driver.Slice{Only: [][]byte{[]byte(name)}})
		if rerr != nil {
			return nil, Info{}, rerr
		}
		if put = len(cells) == 1 && bytes.Equal(cells[0].Value, cell.Value); put {
			err = nil
		}
	}
	if err != nil {
		return nil, Info{}, err
	}
	if !put {
		return nil, Info{}, fmt.Errorf("%w: another client made %s at this moment", ErrExists, name)
	}
	if old.Family != "" {
		if err := s.db.Drop(ctx, old.Family); err != nil {
			return nil, Info{}, fmt.Errorf("drop the former values: %w", err)
		}
	}
	return s.table(ctx, spec, d)
}

// OpenOrCreate opens the table or, where the store does not hold it, makes it. One that was made
// for other values is ErrParams.
func (s *Store) OpenOrCreate(ctx context.Context, name string, kind Kind, column string) (Table, Info, error) {
	t, info, err := s.Open(ctx, name)
	if errors.Is(err, ErrNoTable) {
		t, info, err = s.Create(ctx, name, kind, column, false)
		if errors.Is(err, ErrExists) {
			t, info, err = s.Open(ctx, name) // another client was faster
		}
	}
	if err != nil {
		return nil, Info{}, err
	}
	want, err := SchemeID(name, kind)
	if err != nil {
		return nil, Info{}, err
	}
	if info.SchemeID != want || info.Kind.ID != kind.ID {
		return nil, Info{}, fmt.Errorf("table %s: %w: it holds %s values under scheme ID %q, these are %s values under %q",
			name, ErrParams, info.Kind.Name, info.SchemeID, kind.Name, want)
	}
	return t, info, nil
}
