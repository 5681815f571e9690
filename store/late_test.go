package store

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// lateDB is a database whose first change of the catalogue, once it is armed, is made right before
// the second, while its caller is told that the outcome is unknown.
type lateDB struct {
	driver.DB
	late *lateChange
}

type lateChange struct {
	armed bool
	make  func()
}

func (db lateDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	if spec.Name == catalogueFamily && err == nil {
		f = lateFamily{f, db.late}
	}
	return f, err
}

type lateFamily struct {
	driver.Family
	late *lateChange
}

func (f lateFamily) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (bool, error) {
	if l := f.late; l.armed && l.make == nil {
		l.make = func() { _, _ = f.Family.CheckAndPut(ctx, row, expect, puts...) }
		return false, driver.ErrUnknownOutcome
	} else if l.armed {
		l.make()
		l.armed = false
	}
	return f.Family.CheckAndPut(ctx, row, expect, puts...)
}

// A change that is made later than it was repeated is the change that this client believes it made:
// with other keys or ids it would write rows that nobody else can read.
func TestLateChangesAreThoseBelieved(t *testing.T) {
	ctx := t.Context()
	key, row := Row{"id": int64(1), "at": int64(2)}, Row{"id": int64(1), "at": int64(2), "note": "n"}
	for _, how := range []string{"create", "rotate keys", "change"} {
		t.Run(how, func(t *testing.T) {
			memory, late := drivertest.NewMemory(), &lateChange{}
			st := stores(t, lateDB{memory, late}, 1)[0]
			late.armed = how == "create"
			tbl, err := st.Create(ctx, alterSchema("t"))
			require.NoError(t, err)
			late.armed = true
			switch how {
			case "rotate keys":
				require.NoError(t, st.RotateKeys(ctx, "t"))
			case "change":
				require.NoError(t, st.Alter(ctx, "t", ChangeColumn(DeterministicColumn("note", String))))
			}
			require.NotNil(t, late.make)
			require.NoError(t, tbl.Put(ctx, row))
			got, err := tableOfAnother(t, memory, "t").Get(ctx, key)
			require.NoError(t, err)
			require.Equal(t, row, got)
		})
	}
}

// A client that has known a later entry of a table does not take an earlier one for it: it would
// write in the clear what is encrypted by now.
func TestEntryIsPutBackUnderAClient(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	two := stores(t, db, 2)
	_, err := two[0].Create(ctx, alterSchema("t"))
	require.NoError(t, err)
	tbl, err := two[1].Table(ctx, "t")
	require.NoError(t, err)
	before, set := catalogueCells(t, db)
	require.NoError(t, two[1].Alter(ctx, "t", ChangeColumn(RandomisedColumn("zone", Int32))))
	_, err = two[0].Create(ctx, alterSchema("other"))
	require.NoError(t, err)
	i := slices.IndexFunc(before, func(c driver.Cell) bool { return bytes.Equal(c.Qualifier, two[0].db.Catalogue.Qualifier("t")) })
	set(before[i])
	for range 2 {
		require.ErrorIs(t, tbl.Put(ctx, Row{"id": int64(1), "at": int64(2), "zone": int32(3)}), ErrTampered)
		require.Equal(t, randomised, tbl.now().ByName["zone"].Encryption)
	}
	_, err = two[1].Table(ctx, "t")
	require.ErrorIs(t, err, ErrTampered)
}
