package migrate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A keyedSource has rows with the key "k" of any type, and the column "v". It tells keys apart by their texts, as -0 from 0.
type keyedSource struct {
	Source
	typ  store.Type
	rows []Found
}

func newKeyedSource(typ store.Type, keys ...any) *keyedSource {
	s := &keyedSource{typ: typ}
	for i, k := range keys {
		s.rows = append(s.rows, Found{Row: store.Row{"k": k, "v": int64(i)}, Exists: true, Written: time.Now()})
	}
	return s
}

func (s *keyedSource) Name() string                           { return "memory:keyed" }
func (s *keyedSource) Now(context.Context) (time.Time, error) { return time.Now(), nil }

func (s *keyedSource) Fingerprint(context.Context) (string, error) { return "1", nil }

func (s *keyedSource) Describe(context.Context) (Description, error) {
	return Description{
		Key: []Column{{Name: "k", Type: s.typ, Foreign: "k"}}, Columns: []Column{{Name: "v", Type: store.Int64, Foreign: "v"}},
		Notes: []string{"Mind the gap."},
	}, nil
}

func (s *keyedSource) Scan(_ context.Context, part inspect.Part) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		for i, f := range s.rows {
			if i%part.Of == part.Index && !yield(copyOf(f), nil) {
				return
			}
		}
	}
}

func (s *keyedSource) Read(_ context.Context, keys []store.Row) ([]Found, error) {
	all := make([]Found, len(keys))
	for i, key := range keys {
		all[i].Row = store.Row{"k": key["k"]}
		for _, f := range s.rows {
			if fmt.Sprint(f.Row["k"]) == fmt.Sprint(key["k"]) {
				all[i] = copyOf(f)
			}
		}
	}
	return all, nil
}

// A row whose key the table does not take, or takes for that of another row, is refused and listed as others are, and the pass goes on.
func TestKeysThatTheTableDoesNotTake(t *testing.T) {
	zero := math.Copysign(0, -1)
	floats := []any{math.NaN(), 0.0, zero, 1.5, math.Inf(1)}
	at := time.UnixMilli(1500).UTC()
	for name, c := range map[string]struct {
		part store.KeyPart
		typ  store.Type
		keys []any
		good int
		says []string
	}{
		"hashed":     {store.HashedPart("k", store.Float64), store.Float64, floats, 3, []string{"NaN", "negative zero"}},
		"ordered":    {store.OrderedPart("k", store.Float64, store.MOPE), store.Float64, floats, 3, []string{"NaN", "negative zero"}},
		"stateful":   {store.OrderedPart("k", store.Float64, store.WozniakIndexed), store.Float64, floats, 3, []string{"NaN", "negative zero"}},
		"float32":    {store.HashedPart("k", store.Float32), store.Float32, []any{float32(1), float32(math.NaN()), float32(zero), float32(0)}, 2, []string{"NaN", "negative zero"}},
		"restricted": {store.OrderedPart("k", store.Int64.Within(0, 10), store.MOPE), store.Int64, []any{int64(3), int64(11), int64(-1)}, 1, []string{"", ""}},
		"times":      {store.HashedPart("k", store.Time(time.Second)), store.Time(time.Millisecond), []any{at, at.Truncate(time.Second)}, 1, []string{""}},
	} {
		for _, only := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", conditional ", only), func(t *testing.T) {
				s := newStage(t, 0, nil)
				tbl, err := s.st.Create(s.ctx, store.Schema{Name: "keyed", Conditional: only, Key: []store.KeyPart{c.part}, Columns: []store.Column{store.RandomisedColumn("v", store.Int64)}})
				require.NoError(t, err)
				m, err := New(tbl, newKeyedSource(c.typ, c.keys...))
				require.NoError(t, err)
				plan, err := m.Prepare(s.ctx, false)
				require.NoError(t, err)
				require.Contains(t, plan.Notes, "Mind the gap.")
				listed := make(map[string]string)
				opts := &PassOptions{Finding: func(f Finding) {
					require.ErrorIs(t, f.Err, ErrUnfit)
					require.NotEmpty(t, f.Row)
					require.Nil(t, f.Key)
					require.Contains(t, f.Place, "k = ")
					listed[f.Row] = f.Err.Error()
				}}
				parts := func(do func(context.Context, inspect.Part, *PassOptions) (PartDone, error)) (all Counts) {
					for i := range 2 {
						done, err := do(s.ctx, inspect.Part{Index: i, Of: 2}, opts)
						require.NoError(t, err)
						all.Add(done.Rows)
					}
					return all
				}
				bad := len(c.keys) - c.good
				require.Equal(t, Counts{Copied: c.good, Refused: bad}, parts(m.Copy))
				require.Len(t, listed, bad, "each under a hash of its own, the same in each pass")
				require.Equal(t, Counts{Equal: c.good, Refused: bad}, parts(m.Verify))
				require.Len(t, listed, bad)
				for _, says := range c.says {
					require.Condition(t, func() bool {
						for _, why := range listed {
							if says == "" || strings.Contains(why, says) {
								return true
							}
						}
						return false
					}, "%q: %q", says, listed)
				}
				require.ErrorIs(t, m.Cutover(s.ctx), ErrDiffers)
				rows, err := tbl.Count(s.ctx, store.Predicate{})
				require.NoError(t, err)
				require.EqualValues(t, c.good, rows)
			})
		}
	}
}

// Where no migration goes on, the source is written whatever the key is. While one does, a row that no table takes is ErrUnfit.
func TestDualWritesOfKeysThatTheTableDoesNotTake(t *testing.T) {
	s := newStage(t, 0, nil)
	tbl, err := s.st.Create(s.ctx, store.Schema{
		Name: "keyed", Key: []store.KeyPart{store.OrderedPart("k", store.Float64.Within(0, 9), store.MOPE)}, Columns: []store.Column{store.RandomisedColumn("v", store.Int64)},
	})
	require.NoError(t, err)
	m, err := New(tbl, newKeyedSource(store.Float64))
	require.NoError(t, err)
	why := errors.New("no bytes are such a key")
	writes := map[string]func(apply func(context.Context) error) error{
		"NaN": func(apply func(context.Context) error) error {
			return m.Mirror().Write(s.ctx, []store.Row{{"k": math.NaN()}}, apply)
		},
		"beyond": func(apply func(context.Context) error) error {
			return m.Mirror().Write(s.ctx, []store.Row{{"k": 10.0}}, apply)
		},
		"a type": func(apply func(context.Context) error) error {
			return m.Mirror().Write(s.ctx, []store.Row{{"k": "x"}}, apply)
		},
		"none": func(apply func(context.Context) error) error { return m.Mirror().WriteUnfit(s.ctx, why, apply) },
	}
	broken := errors.New("broken")
	alone := func() {
		for name, write := range writes {
			applied := 0
			require.NoError(t, write(func(context.Context) error { applied++; return nil }), name)
			require.Equal(t, 1, applied, name)
			require.ErrorIs(t, write(func(context.Context) error { return broken }), broken, name)
			require.ErrorContains(t, write(nil), "nothing was written", name)
		}
	}
	alone()
	_, err = m.Prepare(s.ctx, false)
	require.NoError(t, err)
	for name, write := range writes {
		err := write(func(context.Context) error { panic("the source is written") })
		require.ErrorIs(t, err, ErrUnfit, name)
		require.ErrorContains(t, err, "nothing was written", name)
		require.Equal(t, name == "none", errors.Is(err, why))
	}
	require.NoError(t, m.Abort(s.ctx))
	alone()
	for name, write := range writes { // one is prepared while the source is written
		err := write(func(context.Context) error { _, err := m.Prepare(s.ctx, true); return err })
		require.ErrorIs(t, err, ErrUnfit, name)
		require.ErrorContains(t, err, "the source has the write, and the table not yet", name)
		require.NoError(t, m.Abort(s.ctx))
	}
}

// A row of the source of which nothing is to be copied is counted apart: it is no row that the table has.
func TestRowsOfWhichNothingIsCopied(t *testing.T) {
	for name, change := range map[string]func(*store.Schema){"conditional": conditional, "last write wins": expiring} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 3, change)
			s.source.rows[7] = Found{Row: s.source.key(7)}
			s.prepare()
			require.Equal(t, Counts{Copied: 3, Ignored: 1}, s.copy())
			require.Equal(t, Counts{Equal: 3, Ignored: 1}, s.verify(nil))
			status, err := s.m.Status(s.ctx)
			require.NoError(t, err)
			require.Equal(t, 3, status.Verify.Table)
			require.NoError(t, s.m.Cutover(s.ctx))
			require.Equal(t, Counts{Equal: 3, Ignored: 1}, s.verify(nil))
		})
	}
}

// Another client may make the index of a key part again. Whoever writes through a Mirror, or copies, finds keys by the new one.
func TestKeysWhoseIndexIsMadeAgain(t *testing.T) {
	ctx, db, master := t.Context(), drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey())
	client := func() *store.Store {
		st, err := store.Open(ctx, db, master, nil)
		require.NoError(t, err)
		return st
	}
	rebuild := func(table string) {
		other, err := client().Table(ctx, table)
		require.NoError(t, err)
		require.NoError(t, other.RebuildIndex(ctx, "at", nil))
	}
	st := client()
	table := func(name string) *store.Table {
		tbl, err := st.Create(ctx, store.Schema{
			Name: name, Key: []store.KeyPart{store.OrderedPart("at", store.Int64, store.WozniakIndexed)},
			Columns: []store.Column{store.RandomisedColumn("note", store.String)},
		})
		require.NoError(t, err)
		return tbl
	}
	from, into := table("from"), table("into")
	row := func(at int) store.Row { return store.Row{"at": int64(at), "note": fmt.Sprint(at)} }
	for i := range 6 {
		require.NoError(t, from.Put(ctx, row(i)))
	}
	source, err := FromTable(ctx, st, "from")
	require.NoError(t, err)
	m, err := New(into, source)
	require.NoError(t, err)
	_, err = m.Prepare(ctx, false)
	require.NoError(t, err)
	_, err = m.Copy(ctx, inspect.Part{Index: 0, Of: 2}, nil)
	require.NoError(t, err)

	for i, table := range []string{"into", "from", "into"} {
		rebuild(table)
		at := 10 + i
		require.NoError(t, m.Mirror().Write(ctx, []store.Row{row(at), row(i)}, func(ctx context.Context) error {
			return errors.Join(from.Put(ctx, row(at)), from.Delete(ctx, row(i)))
		}), table)
	}
	rebuild("into")
	_, err = m.Copy(ctx, whole, nil)
	require.NoError(t, err)
	rebuild("from")
	done, err := m.Verify(ctx, whole, nil)
	require.NoError(t, err)
	require.Equal(t, Counts{Equal: 6}, done.Rows)
	require.True(t, done.Over)
}

// So does one whose rows are replaced only if nobody has written them: of a column, too, whose values are drawn by its index.
func TestColumnsWhoseIndexIsMadeAgain(t *testing.T) {
	ctx, db, master := t.Context(), drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey())
	var clients []*store.Store
	for range 2 {
		st, err := store.Open(ctx, db, master, nil)
		require.NoError(t, err)
		clients = append(clients, st)
	}
	table := func(name string, conditional bool) *store.Table {
		tbl, err := clients[0].Create(ctx, store.Schema{
			Name: name, Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Conditional: conditional,
			Columns: []store.Column{store.OrderedColumn("level", store.Int64, store.WozniakIndexed)},
		})
		require.NoError(t, err)
		return tbl
	}
	from, into := table("from", false), table("into", true)
	row := func(id int) store.Row { return store.Row{"id": int64(id), "level": int64(100 + id)} }
	for i := range 6 {
		require.NoError(t, from.Put(ctx, row(i)))
	}
	source, err := FromTable(ctx, clients[0], "from")
	require.NoError(t, err)
	m, err := New(into, source)
	require.NoError(t, err)
	_, err = m.Prepare(ctx, false)
	require.NoError(t, err)
	other, err := clients[1].Table(ctx, "into")
	require.NoError(t, err)
	rebuild := func() { require.NoError(t, other.RebuildIndex(ctx, "level", nil)) }
	write := func(id int) {
		require.NoError(t, m.Mirror().Write(ctx, []store.Row{row(id)}, func(ctx context.Context) error { return from.Put(ctx, row(id)) }))
	}
	write(10)
	rebuild()
	write(11)
	rebuild()
	done, err := m.Copy(ctx, whole, nil)
	require.NoError(t, err)
	require.Equal(t, []int{6, 2}, []int{done.Rows.Copied + done.Rows.Mended, done.Rows.Equal})
	done, err = m.Verify(ctx, whole, nil)
	require.NoError(t, err)
	require.Equal(t, Counts{Equal: 8}, done.Rows)
	n, err := into.Count(ctx, store.Int64.Field("level").AtLeast(104))
	require.NoError(t, err)
	require.Equal(t, 4, n)
}
