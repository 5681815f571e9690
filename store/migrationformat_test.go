package store_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

// goldenMigration is a database that the first version wrote which migrates.
const goldenMigration = "../testdata/vectors/migration-1.json"

// A steadySource has rows that never change. Row i is in part i of as many parts as there are rows, and so on.
type steadySource []store.Row

func (s steadySource) Name() string { return "memory:readings" }

func (s steadySource) Now(context.Context) (time.Time, error) { return time.Now(), nil }

func (s steadySource) Fingerprint(context.Context) (string, error) { return "6f2c", nil }

func (s steadySource) Describe(context.Context) (migrate.Description, error) {
	return migrate.Description{
		Key:     []migrate.Column{{Name: "id", Type: store.Int64}},
		Columns: []migrate.Column{{Name: "i1", Type: store.Int64}, {Name: "kind", Type: store.String}},
	}, nil
}

func (s steadySource) Scan(_ context.Context, part inspect.Part) iter.Seq2[migrate.Found, error] {
	return func(yield func(migrate.Found, error) bool) {
		for i, row := range s {
			if i*part.Of/len(s) == part.Index && !yield(migrate.Found{Row: row, Exists: true}, nil) {
				return
			}
		}
	}
}

func (s steadySource) Read(_ context.Context, keys []store.Row) ([]migrate.Found, error) {
	found := make([]migrate.Found, len(keys))
	for i, key := range keys {
		found[i].Row = key
		for _, row := range s {
			if row["id"] == key["id"] {
				found[i] = migrate.Found{Row: row, Exists: true}
			}
		}
	}
	return found, nil
}

func (s steadySource) Drop(context.Context) error                        { return nil }
func (s steadySource) Remains(context.Context) ([]migrate.Remain, error) { return nil, nil }

// migrationDump writes a table that is being copied, in parts of two cuts, with another one in the same database that is cut over.
func migrationDump(t *testing.T, key ope.Key) dump {
	t.Helper()
	h := newChronicle(t, key, "A database with tables whose rows come from elsewhere, as store wrote it, see docs/format.md.")
	rows := featureRows(0, 12, "i1", "kind")
	for _, name := range []string{"readings", "orders"} {
		tbl := h.create(store.Schema{
			Name: name, Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Conditional: true,
			Columns: []store.Column{store.OrderedColumn("i1", store.Int64, store.MOPE), store.RandomisedColumn("kind", store.String)},
		})
		m, err := migrate.New(tbl, steadySource(rows))
		require.NoError(t, err)
		_, err = m.Prepare(background, false)
		require.NoError(t, err)
		copied := 5 // rows of the parts
		parts := []inspect.Part{{Index: 1, Of: 4}, {Index: 5, Of: 6}}
		if name == "orders" {
			copied, parts = 12, []inspect.Part{{Index: 0, Of: 1}}
		}
		for _, part := range parts {
			_, err := m.Copy(background, part, nil)
			require.NoError(t, err)
		}
		if name == "orders" {
			_, err = m.Verify(background, inspect.Part{Index: 0, Of: 1}, nil)
			require.NoError(t, err)
			require.NoError(t, m.Cutover(background))
		} else {
			require.NoError(t, m.Pause(background, true))
		}
		h.dump.Tables[name] = h.holds(tbl, copied)
	}
	return h.finish()
}

// What the first version wrote which migrates is read, and the migration goes on where it was.
func TestFirstMigrationsStayReadable(t *testing.T) {
	d := golden(t, goldenMigration, migrationDump)
	g, tbl := rewrittenReadings(t, d)
	m, err := migrate.New(tbl, steadySource(featureRows(0, 12, "i1", "kind")))
	require.NoError(t, err)
	status, err := m.Status(background)
	require.NoError(t, err)
	require.Equal(t, "copying", status.Phase)
	require.True(t, status.Paused)
	require.Equal(t, "memory:readings", status.Source)
	require.Equal(t, 5, status.Copy.Rows.Copied)
	require.InDelta(t, 1.0/4+1.0/6, status.Copy.Done, 1e-6)
	require.NoError(t, m.Pause(background, false))
	for i := range 8 {
		_, err := m.Copy(background, inspect.Part{Index: i, Of: 8}, nil)
		require.NoError(t, err)
	}
	done, err := m.Verify(background, inspect.Part{Index: 0, Of: 1}, nil)
	require.NoError(t, err)
	require.Zero(t, done.Rows.Differs, "what was put again is what the source has")
	require.NoError(t, m.Cutover(background))

	orders, err := g.st.Table(background, "orders")
	require.NoError(t, err)
	m, err = migrate.New(orders, steadySource(nil))
	require.NoError(t, err)
	require.ErrorIs(t, m.Mirror().Write(background, nil, nil), migrate.ErrCutOver)
}
