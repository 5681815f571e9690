package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/administer"
	"github.com/rangecrypt/rangecrypt/store/internal/bykey"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/layouts"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// An encrypted is a source that is an encrypted table itself.
type encrypted struct {
	table *layouts.Table // nil where there is none
	name  string
	db    *session.Database
}

// FromTable returns an encrypted table as a source, of the same store or of another one. So rows come under other keys, those of row
// keys and of the database included, under another encryption of the row key, or into another database. A table that is not there
// any more does for a Drop that is made again, so that a wrong name is found by Plan and Prepare only. Where the database keeps no write
// times, as the embedded one, whatever differs after the cut-over counts as written late: Drop before the application writes the table,
// or with late. A store knows of no migration into another one: there nothing keeps the source from being dropped.
func FromTable(ctx context.Context, st *store.Store, name string) (Source, error) {
	tbl, err := layouts.Open(ctx, session.Of(st), name)
	if errors.Is(err, store.ErrNoTable) {
		err = nil
	}
	return encrypted{tbl, name, session.Of(st)}, err
}

// gone is the error of what needs a table that is not there.
func (s encrypted) gone() error {
	return fault.Besides(fmt.Errorf("%w: there is none with the name %q", fault.ErrNoTable, s.name), driver.ErrNoFamily)
}

// into reports whether it is the table that rows come into.
func (s encrypted) into(tbl *session.Table) bool { return s.table != nil && s.table.ID() == tbl.ID() }

// appends reports whether rows are never replaced, or the table is gone, which had the schema of the other.
func (s encrypted) appends() bool { return s.table == nil || s.table.Now().Meta.AppendOnly() }

// Name and Now implement [Source], Own [administer.Own].
func (s encrypted) Name() string                           { return catalogue.TableSource + s.name }
func (s encrypted) Now(context.Context) (time.Time, error) { return time.Now(), nil }
func (s encrypted) Own() (tbl *session.Table) {
	if s.table != nil {
		tbl = s.table.Table
	}
	return tbl
}

// Meant implements identified.
func (s encrypted) Meant(fingerprint string) error {
	if s.table == nil || strings.HasPrefix(fingerprint, catalogue.FingerprintOf(s.table.ID())) {
		return nil
	}
	return fmt.Errorf("%w: that was another table, which had the name of %s before", ErrSource, s.Name())
}

// look returns the table as it is now, or why no rows can come from it.
func (s encrypted) look(ctx context.Context) (*engine.Engine, error) {
	if s.table == nil {
		return nil, s.gone()
	}
	t, err := s.table.Refresh(ctx)
	rec, unread := s.table.Database().Catalogue.Migration(ctx, s.table.ID())
	switch {
	case errors.Is(err, fault.ErrNoTable):
		return nil, s.gone()
	case err != nil:
		return nil, err
	case unread == nil && rec.Phase.Dual():
		return nil, fmt.Errorf("%w: rows are coming into table %q itself: cut that migration over, or abort it, before", ErrUnfit, t.Meta.Name)
	}
	return t, nil
}

// Fingerprint implements [Source].
func (s encrypted) Fingerprint(ctx context.Context) (string, error) {
	t, err := s.look(ctx)
	if err != nil {
		return "", err
	}
	// How a column is encrypted may change: values come as they are.
	print := catalogue.FingerprintOf(t.Meta.ID)
	for _, c := range slices.Concat(t.Parts, t.Columns) {
		print += fmt.Sprintf(" %q %s", c.Name, c.Type)
	}
	return print, nil
}

// Describe implements [Source].
func (s encrypted) Describe(ctx context.Context) (d Description, err error) {
	t, err := s.look(ctx)
	if err != nil {
		return d, err
	}
	columns := func(of []*rowcodec.Column) (all []Column) {
		for _, c := range of {
			typ, unknown := store.ParseType(c.Type.String())
			err = cmp.Or(err, unknown)
			all = append(all, Column{Name: c.Name, Type: typ, Foreign: c.Type.String()})
		}
		return all
	}
	d.Key, d.Columns = columns(t.Parts), columns(t.Columns)
	d.TTL = time.Duration(t.Meta.TTL) * time.Second
	d.BeforeDrop = []string{"Backups and snapshots of the database keep what the table had: delete them, too, if its keys may be known to others."}
	return d, err
}

// found returns a row that was read, and the latest stamp of its cells.
func (s encrypted) found(t *engine.Engine, r *rowcodec.Record, stamp int64) Found {
	f := Found{Row: t.Row(r, nil), Exists: true, Written: s.table.Written(stamp)}
	if r.Expires != 0 {
		f.Expires = time.Unix(r.Expires, 0)
	}
	return f
}

// Scan implements [Source].
func (s encrypted) Scan(ctx context.Context, part inspect.Part) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		err := part.Check()
		if err == nil && s.table == nil {
			err = s.gone()
		}
		if err != nil {
			yield(Found{}, err)
			return
		}
		enough := errors.New("enough")
		err = s.table.Scan(ctx, part, func(t *engine.Engine, rows []layouts.Row) error {
			for _, row := range rows {
				f := Found{Row: make(store.Row), Exists: true, Refused: "it cannot be opened: verify the table that it is in"}
				if row.Record != nil {
					f = s.found(t, row.Record, row.Stamp)
				}
				if !yield(f, nil) {
					return enough
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			yield(Found{}, fault.Gone(err))
		}
	}
}

// Read implements [Source].
func (s encrypted) Read(ctx context.Context, rows []store.Row) ([]Found, error) {
	if s.table == nil {
		return nil, s.gone()
	}
	t := s.table.Now()
	keys, err := bykey.KeysOf(ctx, t, rows)
	if err != nil {
		return nil, err
	}
	t, seen, err := s.table.See(ctx, t, keys)
	if err != nil {
		return nil, fault.Gone(err)
	}
	found := make([]Found, len(rows))
	for i := range seen {
		switch r := seen[i].Record; {
		case seen[i].Torn:
			found[i] = Found{Row: bykey.KeyOf(t, rows[i]), Exists: true, Refused: "it has cells of two writes: verify the table that it is in"}
		case r == nil:
			found[i] = Found{Row: bykey.KeyOf(t, rows[i])}
		default:
			found[i] = s.found(t, r, seen[i].Stamp())
		}
	}
	return found, nil
}

// Drop implements [Source].
func (s encrypted) Drop(ctx context.Context) error {
	if s.table == nil {
		return nil
	}
	return administer.DropSource(ctx, s.table.Database(), s.table.Now().Meta.Name, s.table.ID())
}

// Remains implements [Source]. What is left is encrypted under the keys of the table that was dropped.
func (s encrypted) Remains(context.Context) ([]Remain, error) {
	return []Remain{
		{What: "files of the database", Where: "snapshots and logs that it makes by itself", Advice: "what they have is encrypted under the keys of the dropped table"},
		{What: "backups", Where: "wherever they are kept", Advice: "they open with the master key of their time: destroy them if it may be known to others"},
	}, nil
}
