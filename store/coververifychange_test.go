package store

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A beset is a table with copies that one client verifies while another one changes schemas and puts rows.
type beset struct {
	*testing.T
	db    driver.DB
	st    *Store
	tbl   *Table
	rows  int
	names int
}

func newBeset(t *testing.T, conditional bool) *beset {
	t.Helper()
	b := &beset{T: t, db: drivertest.NewMemory()}
	b.st = stores(t, b.db, 1)[0]
	for _, name := range []string{"other", "events"} {
		schema := Schema{
			Name: name, Conditional: conditional, AppendOnly: !conditional,
			Key:     []KeyPart{HashedPart("device", String), TiePart("id")},
			Columns: []Column{OrderedColumn("celsius", Int32, MOPE).Covering(), RandomisedColumn("note", String)},
		}
		var err error
		b.tbl, err = b.st.Create(t.Context(), schema)
		require.NoError(t, err)
	}
	for range 3 {
		b.put()
	}
	return b
}

// put puts a row, with a copy.
func (b *beset) put() {
	require.NoError(b, b.tbl.Put(b.Context(), Row{"device": "a", "celsius": b.rows}))
	b.rows++
}

// change changes the schemas of tables, and puts a row of the version that there is then.
func (b *beset) change(tables ...string) {
	b.names++
	for _, name := range tables {
		require.NoError(b, b.st.Alter(b.Context(), name, AddColumn(RandomisedColumn(fmt.Sprint("new", b.names), Int32))))
	}
	_, err := b.tbl.refresh(b.Context())
	require.NoError(b, err)
	b.put()
}

// verify verifies the table as another client, before whose calls something is done.
func (b *beset) verify(before func(op drivertest.Op)) (*inspect.Verification, []inspect.Fault) {
	counting := false
	st, err := Open(b.Context(), drivertest.NewFaulty(b.db, func(op drivertest.Op) drivertest.Fault {
		if counting {
			before(op)
		}
		return drivertest.NoFault
	}), kms.NewLocal(testMaster), &Options{Concurrency: 1})
	require.NoError(b, err)
	tbl, err := st.Table(b.Context(), "events")
	require.NoError(b, err)
	counting = true
	v, faults := verified(b.T, tbl, VerifyOptions{})
	counting = false
	return v, faults
}

// A copy that is newer than what Verify knows is no fault, whatever table the later version comes of.
func TestVerifyBesideChangesOfOtherTables(t *testing.T) {
	for _, conditional := range []bool{false, true} {
		for _, tables := range [][]string{{"other"}, {"events"}, {"other", "events"}, {"events", "other"}} {
			for n, came := 1, true; came; n++ {
				b, calls := newBeset(t, conditional), 0
				came = false
				_, faults := b.verify(func(drivertest.Op) {
					if calls++; calls == n || calls == n+3 {
						came = true
						b.change(tables...)
					}
				})
				require.Empty(t, faults, "%v before call %d", tables, n)
			}
		}
	}
}

// A damaged copy is a fault, though other tables change all the time; so is one that tells of a version which there is not.
func TestDamagedCopyBesideChangesOfOtherTables(t *testing.T) {
	for name, damage := range map[string]func(copied []byte){
		"content":       func(copied []byte) { copied[len(copied)-1]++ },
		"key":           func(copied []byte) { copied[1]++ },
		"key, version":  func(copied []byte) { copied[1], copied[17] = copied[1]+1, 1 },
		"a version":     func(copied []byte) { copied[17]++ },
		"a version off": func(copied []byte) { copied[1], copied[20] = copied[1]+1, copied[20]+3 },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBeset(t, false)
			c := copiesIn(t, b.tbl)[0]
			damage(c.Cells[0].Value)
			putContent(t, b.tbl, c.Key, c.Cells[0].Value)
			calls := 0
			v, faults := b.verify(func(drivertest.Op) {
				if calls++; calls%2 == 0 && b.names < 40 {
					b.change("other")
				}
			})
			require.Len(t, faults, 1)
			require.Equal(t, map[inspect.FaultKind]int{inspect.FaultCopy: 1}, v.Faults)
			require.Greater(t, b.names, 10)
		})
	}
}
