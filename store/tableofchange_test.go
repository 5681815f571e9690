package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

type patient struct {
	ID      int64            `rangecrypt:"id,key=1,hashed"`
	Birth   encode.CivilDate `rangecrypt:"birth,ordered=boldyreva"`
	Ward    string           `rangecrypt:"ward,deterministic"`
	Weight  int32            `rangecrypt:"weight,ordered=mope,covering"`
	Height  int32            `rangecrypt:"height,ordered=mope,covering=ward"`
	Note    string           `rangecrypt:"note,randomised"`
	Country string           `rangecrypt:"country,plain"`
}

// A struct whose tags made the table goes on when a column is sealed in another way: running and new programs, before
// and after the conversion.
func TestStructsOutliveAnotherEncryption(t *testing.T) {
	date, text, number := store.Date, store.String, store.Int32
	for name, to := range map[string]store.Column{
		"scheme": store.OrderedColumn("birth", date, store.Wozniak), "mutable": store.OrderedColumn("birth", date, store.Kerschbaum),
		"order to equality": store.DeterministicColumn("birth", date), "order to none": store.RandomisedColumn("birth", date),
		"order with copies": store.OrderedColumn("birth", date, store.MOPE).Covering(),
		"equality to none":  store.RandomisedColumn("ward", text),
		"equality to order": store.OrderedColumn("ward", text, store.Boldyreva), "no copies": store.OrderedColumn("weight", number, store.MOPE),
		"other copies": store.OrderedColumn("height", number, store.MOPE).Covering("note"), "no copies of one": store.OrderedColumn("height", number, store.MOPE),
		"none to order": store.OrderedColumn("note", text, store.MOPE), "plain to none": store.RandomisedColumn("country", text),
		"plain to equality": store.DeterministicColumn("country", text),
	} {
		t.Run(name, func(t *testing.T) {
			db := drivertest.NewMemory()
			own, other := open(t, db), open(t, db)
			tbl := opened[patient](t, own, "patients", nil)
			row := func(id int64) *patient {
				return &patient{ID: id, Birth: encode.CivilDate{Year: 1990, Month: 2, Day: int(id)}, Ward: "w", Weight: 70, Height: 180, Note: "n", Country: "c"}
			}
			require.NoError(t, tbl.Put(background, row(1)))
			require.NoError(t, other.Alter(background, "patients", store.ChangeColumn(to)))
			require.NoError(t, tbl.Put(background, row(2)), "it learns of the change with this")
			later, err := store.For[patient](background, other, "patients")
			require.NoError(t, err, "the same program, begun anew")
			for _, converted := range []bool{false, true} {
				if converted {
					_, err := later.Table().Convert(background, nil)
					require.NoError(t, err)
				}
				for _, tbl := range []*store.TableOf[patient]{tbl, later} {
					require.NoError(t, tbl.Put(background, row(3)))
					require.NoError(t, tbl.Update(background, row(2)))
					for id := range int64(3) {
						got, err := tbl.Get(background, &patient{ID: id + 1})
						require.NoError(t, err)
						require.Equal(t, row(id+1), got)
					}
					found := 0
					for got, err := range tbl.Query(background, store.Query{Where: store.Field[encode.CivilDate]("birth").Equal(row(2).Birth)}) {
						require.NoError(t, err)
						require.Equal(t, row(2), got)
						found++
					}
					require.Equal(t, 1, found)
					require.NoError(t, tbl.Delete(background, row(3)))
					require.NoError(t, tbl.Put(background, row(3)))
				}
			}
		})
	}
}

// What a tag says is sealed never goes out in the clear.
func TestStructsDoNotOutliveTheClear(t *testing.T) {
	for name, change := range map[string]struct {
		to   store.Column
		says string
	}{
		"plain":                             {store.PlainColumn("birth", store.Date), `field patient.Birth: column "birth" is plain, and the tag says ordered=boldyreva: write plain, or encrypt the column with store.ChangeColumn`},
		"by a scheme that encrypts nothing": {store.OrderedColumn("birth", store.Date, store.Plaintext), `field patient.Birth: column "birth" is plain, and the tag says ordered=boldyreva`},
		"of none":                           {store.PlainColumn("note", store.String), `field patient.Note: column "note" is plain, and the tag says randomised: write plain`},
	} {
		t.Run(name, func(t *testing.T) {
			db := drivertest.NewMemory()
			own, other := open(t, db), open(t, db)
			tbl := opened[patient](t, own, "patients", nil)
			require.NoError(t, tbl.Put(background, &patient{ID: 1, Birth: encode.CivilDate{Year: 1, Month: 1, Day: 1}}))
			require.NoError(t, other.Alter(background, "patients", store.ChangeColumn(change.to)))
			_, err := store.For[patient](background, other, "patients")
			require.ErrorIs(t, err, store.ErrColumn)
			require.ErrorContains(t, err, change.says)
			require.ErrorIs(t, tbl.Put(background, &patient{ID: 2, Birth: encode.CivilDate{Year: 1, Month: 1, Day: 1}}), store.ErrSchemaChanged)
			_, err = tbl.Get(background, &patient{ID: 1})
			require.ErrorIs(t, err, store.ErrSchemaChanged)
			require.ErrorContains(t, err, change.says)
		})
	}
}

// A client that learns from the row which it reads that a column is gone does not tell the caller that the value is null, and the
// field to be a pointer.
func TestStructsOfRowsWithoutTheirColumn(t *testing.T) {
	type row struct {
		ID   int64 `rangecrypt:"id,key=1,hashed"`
		Size int64 `rangecrypt:"size"`
	}
	db := drivertest.NewMemory()
	st := open(t, db)
	tbl := create(t, st, store.Must(store.SchemaOf[row]("t")))
	require.NoError(t, tbl.Put(background, store.Row{"id": 1, "size": 2}))
	reader := func() *store.TableOf[row] { return store.Must(store.For[row](background, open(t, db), "t")) }
	gets, asks, pages := reader(), reader(), reader()
	require.NoError(t, st.Alter(background, "t", store.DropColumn("size")))
	require.NoError(t, tbl.Put(background, store.Row{"id": 1}))
	_, err := gets.Get(background, &row{ID: 1})
	require.ErrorIs(t, err, store.ErrSchemaChanged)
	for _, err = range asks.Query(background, store.Query{}) {
	}
	require.ErrorIs(t, err, store.ErrSchemaChanged)
	_, _, err = pages.Page(background, store.Query{Limit: 1})
	require.ErrorIs(t, err, store.ErrSchemaChanged)
}
