package bench

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/bare"
	"github.com/rangecrypt/rangecrypt/internal/cli/benchtable"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/internal/cli/values"
	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

var ctx = context.Background()

// write returns the name of a file with a text.
func write(t testing.TB, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "in.csv")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func all(t testing.TB, drawn iter.Seq2[int64, error]) (xs []int64) {
	t.Helper()
	for x, err := range drawn {
		require.NoError(t, err)
		xs = append(xs, x)
	}
	return xs
}

func testKey(t testing.TB, fill byte) ope.Key {
	t.Helper()
	secret := make([]byte, ope.KeySize)
	for i := range secret {
		secret[i] = fill
	}
	key, err := ope.NewKey(secret)
	require.NoError(t, err)
	return key
}

func kind(t testing.TB, name string) values.Kind {
	t.Helper()
	k, err := values.KindByName(name)
	require.NoError(t, err)
	return k
}

func openStore(t testing.TB, db driver.DB) *Store {
	t.Helper()
	s, err := OpenStore(ctx, db, kms.NewLocal(testKey(t, 1)), true)
	require.NoError(t, err)
	return s
}

// every calls test with each scheme and layout.
func every(t *testing.T, test func(t *testing.T, target benchtable.Target)) {
	schemes, _ := benchtable.Schemes()
	layouts, _ := benchtable.Layouts()
	require.NotEmpty(t, schemes)
	require.Len(t, layouts, 2)
	moving := 0
	for _, scheme := range schemes {
		for _, layout := range layouts {
			target, err := benchtable.TargetOf(scheme, benchtable.Layout(layout))
			if err != nil {
				require.ErrorIs(t, err, exit.ErrUsage)
				require.ErrorContains(t, err, "--layout column")
				moving++
				continue
			}
			t.Run(target.Name(), func(t *testing.T) { test(t, target) })
		}
	}
	require.Equal(t, 4, moving, "kerschbaum, with ranks, as published, and what is compared with the first and the last")
}

// Row ids are those that docs/format.md specifies; a program in Python made these.
func TestRowIDs(t *testing.T) {
	ties := openStore(t, drivertest.NewMemory()).Load(0x0123456789abcdef)
	for i, want := range map[uint64]string{
		0:       "18b5fc4ce7dbe7aab1fbb1ef176e5ef8",
		1:       "ad7e6e130ac9548d3b86df12011a58c0",
		1 << 40: "740e33be0d8dc86d1a3bd4bea1d95df2",
	} {
		tie := ties.Tie(i)
		require.Equal(t, want, hex.EncodeToString(tie[:]), "row %d", i)
	}
}

// A table returns the rows of every range, in order, whatever the scheme and the layout: all kinds
// of ranges of a small domain, the whole of it included.
func TestTableAgainstSortedRows(t *testing.T) {
	every(t, func(t *testing.T, target benchtable.Target) {
		r := rand.New(rand.NewPCG(1, 2))
		s := openStore(t, drivertest.NewMemory())
		table, info, err := s.Create(ctx, target, kind(t, "uint8"), "c", false)
		require.NoError(t, err)
		require.Equal(t, target, info.Target)
		require.Equal(t, "c", info.Column)
		ties := s.Load(1)
		var rows []Row
		for i := range 150 {
			rows = append(rows, Row{int64(r.IntN(256)), ties.Tie(uint64(i))})
		}
		require.NoError(t, table.Insert(ctx, rows))
		require.NoError(t, table.Insert(ctx, rows[:20]), "again, as after an interruption")
		slices.SortFunc(rows, compareRows)
		for lo := int64(-1); lo <= 256; lo += 11 {
			for hi := int64(-1); hi <= 256; hi += 13 {
				var want []Row
				for _, row := range rows {
					if lo <= row.Value && row.Value <= hi {
						want = append(want, row)
					}
				}
				got := collect(t, table, lo, hi, 0)
				// Equal values have no order.
				require.True(t, slices.IsSortedFunc(got, func(a, b Row) int { return cmp.Compare(a.Value, b.Value) }))
				limit := r.IntN(3)*5 + 1
				require.Equal(t, got[:min(limit, len(got))], collect(t, table, lo, hi, limit), "[%d, %d] limit %d", lo, hi, limit)
				slices.SortFunc(got, compareRows)
				require.Equal(t, want, got, "[%d, %d]", lo, hi)
			}
		}
		for _, whole := range [][2]int64{{math.MinInt64, math.MaxInt64}, {0, 255}} {
			got := collect(t, table, whole[0], whole[1], 0)
			slices.SortFunc(got, compareRows)
			require.Equal(t, rows, got)
		}
	})
}

func compareRows(a, b Row) int {
	return cmp.Or(cmp.Compare(a.Value, b.Value), slices.Compare(a.Tie[:], b.Tie[:]))
}

// Every type can be stored, with the least and the greatest of its values.
func TestTableOfEveryKind(t *testing.T) {
	require.NotEmpty(t, values.KindNames())
	refused := 0
	every(t, func(t *testing.T, target benchtable.Target) {
		s := openStore(t, drivertest.NewMemory())
		for _, name := range values.KindNames() {
			k := kind(t, name)
			table, info, err := s.Create(ctx, target, k, "c", true)
			if target.Scheme == "kerschbaum-paper" && k.Domain.Span() >= 1<<63 {
				require.ErrorIs(t, err, exit.ErrUsage, name)
				require.ErrorContains(t, err, "of type "+name)
				refused++
				continue
			}
			require.NoError(t, err, name)
			rows := []Row{{k.Domain.Min, Tie{1}}, {0, Tie{2}}, {k.Domain.Max, Tie{3}}}
			slices.SortFunc(rows, compareRows)
			require.NoError(t, table.Insert(ctx, rows), name)
			got := collect(t, table, k.Domain.Min, k.Domain.Max, 0)
			slices.SortFunc(got, compareRows)
			require.Equal(t, rows, got, name)
			table, again, err := s.Open(ctx, target)
			require.NoError(t, err, name)
			require.Equal(t, name, again.Kind.Name)
			require.Equal(t, info.SchemeID, again.SchemeID)
			require.Len(t, collect(t, table, k.Domain.Max, k.Domain.Max, 0), 3-len(slices.DeleteFunc(got, func(r Row) bool { return r.Value == k.Domain.Max })))
		}
	})
	require.Positive(t, refused)
}

// A column of a file may have a name that no column of a table can have.
func TestNamesOfColumns(t *testing.T) {
	every(t, func(t *testing.T, target benchtable.Target) {
		s := openStore(t, drivertest.NewMemory())
		for name, want := range map[string]string{
			"delay": "delay", "id": "id", "row id": "row id", "": "value", strings.Repeat("x", 101): "value", "\xff": "value",
		} {
			_, info, err := s.Create(ctx, target, kind(t, "int8"), name, true)
			require.NoError(t, err)
			require.Equal(t, want, info.Column)
			_, info, err = s.Open(ctx, target)
			require.NoError(t, err)
			require.Equal(t, want, info.Column)
		}
	})
}

// A table takes one column only: that with the name in its header, or that with its number in files
// without names.
func TestTheColumnOfATable(t *testing.T) {
	const header = "a , b,,9,d,d\n1,2,3,4,5,6\n"
	long := strings.Repeat("x", 101)
	type input struct {
		text, column string
		header       values.Header
	}
	bare := input{"5,6,7,8,9,9\n1,2,3,4,5,6\n", "2", values.HeaderNo}
	for _, test := range []struct {
		first, second input
		same          bool
		says          string // of the two columns
	}{
		{input{header, "a", ""}, input{header, "1", values.HeaderYes}, true, ""},
		{input{header, "a ", ""}, input{"a\n1\n", " a", ""}, true, ""},
		{input{header, "a", ""}, input{header, "b", ""}, false, `filled from column "a", and this is column "b"`},
		{input{header, "a", ""}, input{header, "2", values.HeaderYes}, false, `"b"`},
		{input{header, "a", ""}, input{header, "1", values.HeaderNo}, false, `"a", and this is column number 1 of a file without names`},
		{bare, bare, true, ""},
		{bare, input{bare.text, "3", values.HeaderNo}, false, "number 2 of a file without names, and this is column number 3 of a file without names"},
		{bare, input{header, "2", values.HeaderYes}, false, `number 2 of a file without names, and this is column "b"`},
		{bare, input{header, "b", ""}, false, `this is column "b"`},
		{bare, input{"2,1\n5,6\n", "2", values.HeaderYes}, false, `number 2 of a file without names, and this is column "2"`},
		{bare, input{"x,2\n5,6\n", "2", values.HeaderYes}, false, `this is column "2"`},
		{input{header, "9", ""}, input{header, "4", values.HeaderYes}, true, ""},
		{input{header, "3", values.HeaderYes}, input{header, "3", values.HeaderYes}, true, ""},
		{input{header, "3", values.HeaderYes}, input{bare.text, "3", values.HeaderNo}, false, `column "number 3", and this is column number 3`},
		{input{header, "5", values.HeaderYes}, input{header, "5", values.HeaderYes}, true, ""},
		{input{header, "5", values.HeaderYes}, input{header, "6", values.HeaderYes}, false, `column "d, number 5", and this is column "d, number 6"`},
		{input{header, "5", values.HeaderYes}, input{bare.text, "5", values.HeaderNo}, false, `"d, number 5"`},
		{input{header, "5", values.HeaderYes}, input{"\"d, number 5\"\n1\n", "d, number 5", ""}, false, `"d, number 5"`},
		{input{long + "\n1\n", long, ""}, input{"n," + long + "\n1,2\n", "2", values.HeaderYes}, true, ""},
		{input{long + "\n1\n", long, ""}, input{long + "x\n1\n", long + "x", ""}, false, "column \"" + long[:60] + "... "},
		{input{long + "\n1\n", long, ""}, input{bare.text, "1", values.HeaderNo}, false, "this is column number 1"},
		{input{long + "\n1\n", long, ""}, input{"value\n1\n", "value", ""}, false, `this is column "value"`},
		{input{"\xff\n1\n", "\xff", ""}, input{"\xfe\n1\n", "\xfe", ""}, false, `column "... `},
	} {
		s := openStore(t, drivertest.NewMemory())
		target := benchtable.Target{Scheme: "mope", Layout: benchtable.LayoutKey}
		fill := func(in input) (Info, error) {
			source, err := values.OpenCSV(write(t, in.text), in.column, values.CSVOptions{Header: in.header})
			require.NoError(t, err, "%v", test)
			_, info, err := s.OpenOrCreate(ctx, target, source.Kind(), source.Column())
			return info, err
		}
		first, err := fill(test.first)
		require.NoError(t, err, "%v", test)
		second, err := fill(test.second)
		if test.same {
			require.NoError(t, err, "%v", test)
			require.Equal(t, first.Column, second.Column)
			continue
		}
		require.ErrorIs(t, err, exit.ErrUsage, "%v", test)
		require.ErrorContains(t, err, test.says)
	}
}

// The rows of a load that a table holds already are those of the input, or it is another load.
func TestCheckLoad(t *testing.T) {
	every(t, func(t *testing.T, target benchtable.Target) {
		s := openStore(t, drivertest.NewMemory())
		table, _, err := s.Create(ctx, target, kind(t, "int16"), "c", false)
		require.NoError(t, err)
		anyBad, err := values.ParseMaxBad("100%")
		require.NoError(t, err)
		input := func(text string, limit int) values.Source {
			source, err := values.OpenCSV(write(t, "c\n"+strings.ReplaceAll(text, " ", "\n")+"\n"), "c", values.CSVOptions{Type: "int16", Limit: limit, MaxBad: anyBad})
			require.NoError(t, err)
			return source
		}
		check := func(text string, limit int) (int, error) {
			return CheckLoad(ctx, table, kind(t, "int16"), s.Load(7), input(text, limit), limit, nil)
		}
		other := []Row{{5, s.Load(8).Tie(0)}, {6, s.Load(8).Tie(70)}}
		require.NoError(t, table.Insert(ctx, other))
		n, err := check("1 2 3", 0)
		require.NoError(t, err)
		require.Zero(t, n, "rows of another load")

		ties := s.Load(7)
		require.NoError(t, table.Insert(ctx, []Row{{10, ties.Tie(0)}, {10, ties.Tie(2)}, {30, ties.Tie(3)}}))
		for text, same := range map[string]bool{
			"10 20 10 30":       true,
			"10 99 10 30 40 50": true, // the rest was not inserted yet
			"10 x 20 10 30":     true,
			"10 20 10":          false,
			"20 10 10 30":       false,
			"10 10 30":          false,
			"1 10 20 10 30":     false,
			"9 20 11 30":        false,
			"1":                 false,
		} {
			n, err := check(text, 0)
			if same {
				require.NoError(t, err, text)
				require.Equal(t, 3, n)
				continue
			}
			require.ErrorIs(t, err, exit.ErrUsage, text)
		}
		_, err = check("10 20 10 30", 3)
		require.ErrorIs(t, err, exit.ErrUsage, "fewer rows than are there")
		_, err = check("10 20 10 30 40", 4)
		require.NoError(t, err)
	})
}

// Where ranges of a column come in no order for a time, the table says so, and they can be sorted.
func TestUnorderedRanges(t *testing.T) {
	for scheme, unorder := range map[string]func(t *testing.T, s *Store, tbl *table){
		"kerschbaum": func(t *testing.T, _ *Store, tbl *table) {
			ctx, cancel := context.WithCancel(ctx)
			require.ErrorIs(t, tbl.table.RebuildIndex(ctx, "c", func(int) { cancel() }), context.Canceled)
		},
		"boldyreva": func(t *testing.T, s *Store, _ *table) {
			for _, to := range []store.Column{store.RandomisedColumn("c", store.Int16), store.OrderedColumn("c", store.Int16, store.Boldyreva)} {
				require.NoError(t, s.store.Alter(ctx, "boldyreva/column", store.ChangeColumn(to)))
			}
		},
	} {
		t.Run(scheme, func(t *testing.T) {
			s := openStore(t, drivertest.NewMemory())
			target := benchtable.Target{Scheme: scheme, Layout: benchtable.LayoutColumn}
			made, _, err := s.Create(ctx, target, kind(t, "int16"), "c", false)
			require.NoError(t, err)
			var rows []Row
			for i := range 50 {
				rows = append(rows, Row{int64(i * 7 % 50), s.Load(1).Tie(uint64(i))})
			}
			require.NoError(t, made.Insert(ctx, rows))
			why, err := made.Unordered(ctx)
			require.NoError(t, err)
			require.Empty(t, why)

			unorder(t, s, made.(*table))
			again, _, err := s.Open(ctx, target)
			require.NoError(t, err)
			why, err = again.Unordered(ctx)
			require.NoError(t, err)
			require.Contains(t, why, `column "c"`)
			for _, err = range again.Range(ctx, 0, 49, 0) {
			}
			require.ErrorIs(t, err, ErrUnordered)
			require.NotErrorIs(t, err, exit.ErrWrongAnswer)
			for limit, want := range map[int]int{0: 40, 1: 1, 7: 7, 100: 40, math.MaxInt: 40} {
				next := int64(5)
				for row, err := range Sorted(ctx, again, 5, 44, limit) {
					require.NoError(t, err)
					require.Equal(t, next, row.Value, "limit %d", limit)
					next++
				}
				require.EqualValues(t, want, next-5, "limit %d", limit)
			}
			for _, err = range Sorted(ctx, twice{again}, 0, 49, 7) {
			}
			require.ErrorIs(t, err, exit.ErrWrongAnswer, "a row came twice")
		})
	}
}

// twice yields each row two times.
type twice struct{ StoredTable }

func (t twice) Rows(ctx context.Context, lo, hi int64, limit int) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for row, err := range t.StoredTable.Rows(ctx, lo, hi, limit) {
			for range 2 {
				if !yield(row, err) {
					return
				}
			}
		}
	}
}

// slowTable acknowledges a batch some time after its context has ended, or fails it.
type slowTable struct {
	Table
	interrupt context.CancelFunc
	err       error
}

func (s slowTable) Insert(ctx context.Context, _ []Row) error {
	s.interrupt()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(50 * time.Millisecond):
		return s.err
	}
}

// A batch that is under way when the insertion is interrupted is counted, and one that fails is said to
// be uncertain.
func TestInterruptedInsertion(t *testing.T) {
	for _, fails := range []error{nil, errors.New("no answer")} {
		source, err := values.Generate("uniform", 100, 1, "int16", "")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		done, err := Insert(ctx, slowTable{interrupt: cancel, err: fails}, (&Store{}).Load(1), source, 0, 10, 1, nil)
		require.Error(t, err)
		require.Equal(t, fails != nil, Unsure(err))
		if fails != nil {
			require.ErrorIs(t, err, fails)
			require.Zero(t, done)
			continue
		}
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 10, done)
	}
}

// An input that changes between two passes is noticed.
func TestUnchanged(t *testing.T) {
	path := write(t, "c\n1\n2\n3\n")
	for _, limit := range []int{0, 3} {
		require.NoError(t, os.WriteFile(path, []byte("c\n1\n2\n3\n"), 0o600))
		source, err := values.OpenCSV(path, "c", values.CSVOptions{Limit: limit})
		require.NoError(t, err)
		in, err := Count(ctx, source, limit, nil)
		require.NoError(t, err)
		require.Equal(t, 3, in.Rows)
		again := Unchanged(source, in)
		require.Equal(t, []int64{1, 2, 3}, all(t, again.Values()))
		for text, changed := range map[string]bool{
			"c\n1\n2\n3\n4\n": limit == 0, "c\n1\n2\n": true, "c\n1\n2\n4\n": true, "c\n1\n4\n3\n": true, "c\n1\n2\n3\n": false,
		} {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			var last error
			for _, last = range again.Values() {
			}
			if changed {
				require.ErrorIs(t, last, ErrChanged, text)
			} else {
				require.NoError(t, last, text)
			}
		}
	}
}

func collect(t testing.TB, table Table, lo, hi int64, limit int) []Row {
	t.Helper()
	var rows []Row
	for row, err := range table.Range(ctx, lo, hi, limit) {
		require.NoError(t, err)
		rows = append(rows, row)
	}
	return rows
}

func TestTableRefusesValuesOutOfTheDomain(t *testing.T) {
	every(t, func(t *testing.T, target benchtable.Target) {
		table, _, err := openStore(t, drivertest.NewMemory()).Create(ctx, target, kind(t, "int8"), "c", false)
		require.NoError(t, err)
		err = table.Insert(ctx, []Row{{Value: 1}, {Value: 128}})
		require.ErrorIs(t, err, ope.ErrDomain)
		require.Empty(t, collect(t, table, -128, 127, 0), "nothing of the batch is there")
	})
}

func TestTies(t *testing.T) {
	s := openStore(t, drivertest.NewMemory())
	seen := map[Tie]bool{}
	for load := range uint64(10) {
		for i := range uint64(1000) {
			tie := s.Load(load).Tie(i)
			require.False(t, seen[tie])
			require.Equal(t, tie, s.Load(load).Tie(i))
			seen[tie] = true
		}
	}
}

func TestStoreRefuses(t *testing.T) {
	db := drivertest.NewMemory()
	_, err := OpenStore(ctx, db, kms.NewLocal(testKey(t, 1)), false)
	require.ErrorIs(t, err, stores.ErrNoTable)
	s := openStore(t, db)
	_, err = OpenStore(ctx, db, kms.NewLocal(testKey(t, 2)), false)
	require.ErrorIs(t, err, store.ErrWrongKey)
	every(t, func(t *testing.T, target benchtable.Target) {
		_, _, err = s.Open(ctx, target)
		require.ErrorIs(t, err, stores.ErrNoTable)
		_, _, err = s.Create(ctx, target, kind(t, "int32"), "c", false)
		require.NoError(t, err)
		_, _, err = s.Create(ctx, target, kind(t, "int32"), "c", false)
		require.ErrorIs(t, err, ErrExists)
		for _, other := range []string{"int64", "date", "uint32", "timestamp"} {
			_, _, err = s.OpenOrCreate(ctx, target, kind(t, other), "c")
			if _, none := benchtable.SchemeID(target.Scheme, kind(t, other)); none != nil {
				require.ErrorIs(t, err, exit.ErrUsage, other)
				continue
			}
			require.ErrorIs(t, err, ErrParams, other)
			require.ErrorContains(t, err, "/1 domain=")
			require.ErrorContains(t, err, "take --type int32, or name another store")
		}
		_, _, err = s.OpenOrCreate(ctx, target, kind(t, "int32"), "another name")
		require.ErrorIs(t, err, exit.ErrUsage)
		require.ErrorContains(t, err, `was filled from column "c", and this is column "another name"`)
		_, info, err := s.OpenOrCreate(ctx, target, kind(t, "int32"), "c")
		require.NoError(t, err)
		require.Equal(t, "c", info.Column)
	})
	for _, layout := range []benchtable.Layout{"row", "KEY"} {
		_, _, err = s.Create(ctx, benchtable.Target{Scheme: "mope", Layout: layout}, kind(t, "int32"), "c", false)
		require.ErrorIs(t, err, exit.ErrUsage)
		_, _, err = s.Open(ctx, benchtable.Target{Scheme: "mope", Layout: layout})
		require.ErrorIs(t, err, exit.ErrUsage)
	}
}

// Tables of the store that opebench did not make are left alone, and refused where they have the
// name of one that it makes.
func TestForeignTables(t *testing.T) {
	db := drivertest.NewMemory()
	s := openStore(t, db)
	foreign, err := store.Open(ctx, db, kms.NewLocal(testKey(t, 1)), nil)
	require.NoError(t, err)
	for _, name := range []string{"readings", "mope", "mope/", "rot13/key"} {
		_, err = foreign.Create(ctx, store.Schema{Name: name, Key: []store.KeyPart{store.HashedPart("k", store.String)}})
		require.NoError(t, err)
	}
	names, err := s.Tables(ctx)
	require.NoError(t, err)
	require.Empty(t, names)
	for i, made := range []store.Schema{
		{Key: []store.KeyPart{store.HashedPart("k", store.String)}},
		{Key: []store.KeyPart{store.OrderedPart("c", store.Int32, store.Boldyreva), store.TiePart("id")}},
		{Key: []store.KeyPart{store.OrderedPart("c", store.Int32.Within(0, 9), store.MOPE), store.TiePart("id")}},
		{Key: []store.KeyPart{store.OrderedPart("c", store.String, store.MOPE), store.TiePart("id")}},
		{Key: []store.KeyPart{store.OrderedPart("c", store.Int32, store.MOPE), store.TiePart("id")}, Columns: []store.Column{store.PlainColumn("p", store.Bool)}},
	} {
		made.Name = "mope/key"
		if i > 0 {
			require.NoError(t, foreign.Drop(ctx, made.Name))
		}
		_, err = foreign.Create(ctx, made)
		require.NoError(t, err)
		_, _, err = s.Open(ctx, benchtable.Target{Scheme: "mope", Layout: benchtable.LayoutKey})
		require.ErrorIs(t, err, ErrParams, "%d", i)
		_, _, err = s.OpenOrCreate(ctx, benchtable.Target{Scheme: "mope", Layout: benchtable.LayoutKey}, kind(t, "int32"), "c")
		require.ErrorIs(t, err, ErrParams, "%d", i)
	}
}

// What is measured as stored is what the database was given.
func TestStoredBytes(t *testing.T) {
	every(t, func(t *testing.T, target benchtable.Target) {
		db := drivertest.NewMemory()
		s := openStore(t, db)
		table, info, err := s.Create(ctx, target, kind(t, "int32"), "c", false)
		require.NoError(t, err)
		families := map[benchtable.Layout]int{benchtable.LayoutKey: 1, benchtable.LayoutColumn: 2}[target.Layout]
		if target.HasIndex() {
			families++
		}
		require.Len(t, info.Families, families)
		require.NoError(t, table.Insert(ctx, []Row{{1, Tie{1}}, {2, Tie{2}}}))
		want := int64(0)
		for _, name := range info.Families {
			spec := driver.FamilySpec{Name: name, Layout: driver.LayoutOrdered}
			switch {
			case name[0] == 'i':
				spec.Layout = driver.LayoutWide
			case name[0] == 'x':
				spec.PrefixBytes, spec.SpreadBits = 4, 4
			case target.Layout == benchtable.LayoutColumn:
				spec.PrefixBytes = 16
			default:
				spec.SpreadBits = 4
			}
			f, err := db.Family(ctx, spec)
			require.NoError(t, err)
			for row, err := range f.Scan(ctx, driver.Range{AnyOrder: true}) {
				require.NoError(t, err)
				for _, c := range row.Cells {
					want += int64(len(row.Key) + len(c.Qualifier) + len(c.Value))
				}
			}
		}
		require.Positive(t, want)
		if target.HasIndex() { // what stands in an index is put more than once
			require.GreaterOrEqual(t, s.meter.put(info.Families), want)
			require.Less(t, s.meter.put(info.Families), 4*want)
			return
		}
		require.Equal(t, want, s.meter.put(info.Families))
	})
}

// Whatever happens to the calls, a store that could be made can be opened, and a table that could
// be created is there once.
func TestStoreUnderFaults(t *testing.T) {
	made := 0
	for seed := range uint64(200) {
		memory := drivertest.NewMemory()
		db := drivertest.NewFaulty(unclosed{memory}, drivertest.Randomly(seed, 0.1))
		if s, err := OpenStore(ctx, db, kms.NewLocal(testKey(t, 1)), true); err == nil {
			if table, _, err := s.OpenOrCreate(ctx, benchtable.Target{Scheme: "mope", Layout: benchtable.LayoutColumn}, kind(t, "int8"), "c"); err == nil {
				row := []Row{{5, s.Load(1).Tie(1)}}
				for table.Insert(ctx, row) != nil {
				}
				made++
				require.NoError(t, db.Close())
				again := openStore(t, memory)
				table, _, err = again.Open(ctx, benchtable.Target{Scheme: "mope", Layout: benchtable.LayoutColumn})
				require.NoError(t, err, "seed %d", seed)
				require.Equal(t, row, collect(t, table, -128, 127, 0), "seed %d", seed)
			}
		}
	}
	require.Greater(t, made, 10)
}

type unclosed struct{ driver.DB }

func (unclosed) Close() error { return nil }

// The digests of a model are those of its windows, computed plainly.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.OneOf(rapid.Int64(), rapid.Int64Range(-3, 3), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64})), 1, 60).Draw(t, "values")
		sorted := slices.Clone(xs)
		slices.Sort(sorted)
		m := newModel(len(xs), sorted, 9, []float64{0.1, 0.5, 1}, 1)
		var rows []Row
		for i, x := range xs {
			rows = append(rows, Row{Value: x, Tie: Tie{byte(i)}})
		}
		m.add(rows[:len(rows)/2])
		m.add(rows[len(rows)/2:])
		m.close()
		slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Value, b.Value) })
		require.Len(t, m.windows, 9)
		for _, w := range m.windows {
			c := m.check()
			for _, row := range rows {
				if w.lo <= row.Value && row.Value <= w.hi {
					c.add([]Row{row})
				}
			}
			require.NoError(t, c.result(w.want))
			require.Positive(t, w.want.rows)
		}
		require.Equal(t, len(xs), m.whole.rows)
	})
}

func TestCheckTellsWhatIsWrong(t *testing.T) {
	m := newModel(3, []int64{1, 2, 3}, 1, []float64{1}, 1)
	rows := []Row{{1, Tie{1}}, {2, Tie{2}}, {2, Tie{3}}, {3, Tie{4}}}
	m.add(rows)
	m.close()
	for want, got := range map[string][]Row{
		"3 rows came back, 4 are there":                              rows[:3],
		"5 rows came back, only 4 are there":                         append(slices.Clone(rows), rows[3]),
		"of the 4 rows that came back, some are not those":           {rows[0], rows[1], rows[1], rows[3]},
		"of the 4 rows that came back, some are not those that were": {rows[0], rows[1], {2, Tie{9}}, rows[3]},
		"another order than their values":                            {rows[1], rows[0], rows[2], rows[3]},
	} {
		c := m.check()
		c.add(got)
		err := c.result(m.whole)
		require.ErrorIs(t, err, exit.ErrWrongAnswer)
		require.ErrorContains(t, err, want)
	}
	c := m.check()
	c.add([]Row{rows[0], rows[2], rows[1], rows[3]})
	require.NoError(t, c.result(m.whole), "equal values have no order")
}

// Windows hold the share of the rows that they are made for.
func TestSelectivities(t *testing.T) {
	for _, data := range []string{"uniform", "normal", "timestamps"} {
		source, err := values.Generate(data, 20_000, 1, "", "")
		require.NoError(t, err)
		n, sorted, err := sample(source.Values(), 0, 1, func(int) error { return nil })
		require.NoError(t, err)
		require.Equal(t, 20_000, n)
		m := newModel(n, sorted, 200, []float64{0.001, 0.01, 0.1}, 1)
		var rows []Row
		for x := range source.Values() {
			rows = append(rows, Row{Value: x})
		}
		m.add(rows)
		m.close()
		for _, w := range m.windows {
			require.InDelta(t, w.selectivity*20_000, w.want.rows, 2, data)
		}
	}
}

func TestSampleIsBoundedAndUniform(t *testing.T) {
	const n = 3 * sampleSize
	values := func(yield func(int64, error) bool) {
		for i := range int64(n) {
			if !yield(i, nil) {
				return
			}
		}
	}
	rows, kept, err := sample(values, 0, 1, func(int) error { return nil })
	require.NoError(t, err)
	require.Equal(t, n, rows)
	require.Len(t, kept, sampleSize)
	require.Len(t, slices.Compact(slices.Clone(kept)), sampleSize)
	for q := 1; q < 10; q++ {
		require.InDelta(t, n*q/10, kept[sampleSize*q/10], n/100)
	}
	rows, kept, err = sample(values, 10, 1, func(int) error { return nil })
	require.NoError(t, err)
	require.Equal(t, 10, rows)
	require.Len(t, kept, 10)
}

func TestPairedRatio(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	covered := 0
	const trials = 100
	for range trials {
		var a, b []time.Duration
		for range 60 {
			weather := math.Exp(r.NormFloat64()) // meets both of a pair
			b = append(b, time.Duration(1e6*weather*(1+0.1*r.Float64())))
			a = append(a, time.Duration(1.5e6*weather*(1+0.1*r.Float64())))
		}
		ratio := pairedRatio(a, b, 1)
		require.InDelta(t, 1.5, ratio.Value, 0.1)
		require.Less(t, ratio.High-ratio.Low, 0.15, "the weather must not widen the interval")
		require.LessOrEqual(t, ratio.Low, ratio.Value)
		require.GreaterOrEqual(t, ratio.High, ratio.Value)
		if ratio.Low <= 1.5 && 1.5 <= ratio.High {
			covered++
		}
	}
	require.Greater(t, covered, trials*80/100)
	require.Zero(t, pairedRatio(nil, nil, 1))
	one := pairedRatio([]time.Duration{3}, []time.Duration{2}, 1)
	require.Equal(t, Ratio{1.5, 1.5, 1.5, 1}, one)
	many := make([]time.Duration, 3*maxPairs+7)
	for i := range many {
		many[i] = time.Duration(i + 1)
	}
	require.Equal(t, Ratio{1, 1, 1, len(many)}, pairedRatio(many, many, 1))
}

// An interval from few pairs is as wide as it has to be for what it is called.
func TestIntervalsOfFewPairs(t *testing.T) {
	require.InDelta(t, 0.00095, tail(5), 0.00001) // pnorm(-sqrt(5/4) * qt(0.975, 4)) of R
	require.InDelta(t, 0.0159, tail(20), 0.0001)
	require.InDelta(t, 0.025, tail(maxPairs), 0.0002)
	require.Equal(t, 0.025, tail(1))

	r := rand.New(rand.NewPCG(1, 5))
	const trials = 400
	covered := 0
	for range trials {
		var a, b []time.Duration
		for range MinPairs {
			weather := 1e6 * math.Exp(0.3*r.NormFloat64())
			a = append(a, time.Duration(1.1*weather*math.Exp(0.2*r.NormFloat64())))
			b = append(b, time.Duration(weather*math.Exp(0.2*r.NormFloat64())))
		}
		if ratio := pairedRatio(a, b, 1); ratio.Low <= 1.1 && 1.1 <= ratio.High {
			covered++
		}
	}
	require.Greater(t, covered, trials*87/100)
}

func TestRunOnMemory(t *testing.T) {
	source, err := values.Generate("uniform", 2000, 1, "", "")
	require.NoError(t, err)
	names, _ := benchtable.Schemes()
	for _, layout := range []benchtable.Layout{"", benchtable.LayoutColumn} {
		report, err := Run(ctx, openStore(t, drivertest.NewMemory()), Config{
			Source: source, Limit: 1234, Schemes: names, Layout: layout, Queries: 31, Selectivities: []float64{0.01, 0.2}, Batch: 10, Writers: 3, Seed: 4,
		})
		require.NoError(t, err)
		require.True(t, report.Complete)
		require.Equal(t, 1234, report.Rows)
		require.Equal(t, 1234, report.Inserted)
		targets, err := benchtable.Targets(names, layout)
		require.NoError(t, err)
		require.Len(t, report.Results, len(targets))
		for i, r := range report.Results {
			target := targets[i]
			require.Equal(t, target, r.Target)
			require.Equal(t, 1234, r.Insert.Rows)
			require.GreaterOrEqual(t, r.Insert.Ratio.Pairs, minPairs)
			require.Equal(t, int64(31), r.Query.Latency.Count())
			require.Equal(t, 31, r.Verified)
			require.True(t, r.Whole)
			require.Equal(t, r.Query.Rows, r.BySelectivity[0].Rows+r.BySelectivity[1].Rows)
			require.Equal(t, report.Results[0].Query.Rows, r.Query.Rows, "all are asked the same")
			require.Positive(t, r.Insert.Rate())
			require.Greater(t, r.StoredBytes, 20.0)
			if runtime.GOOS != "windows" {
				require.Positive(t, r.Insert.CPUPerRow())
			}
			require.Equal(t, target.HasIndex() && benchtable.Baseline(target.Scheme) != target.Scheme, r.Insert.Index != nil)
			require.Equal(t, r.Insert.Index != nil, r.Query.Index != nil)
			if r.Insert.Index != nil {
				require.Positive(t, r.Insert.Index.RoundTrips)
				require.Positive(t, r.Insert.Index.Commits)
				require.LessOrEqual(t, r.Insert.Index.Commits, r.Insert.Index.RoundTrips)
				require.Zero(t, r.Query.Index.Commits, "queries do not write")
				require.Equal(t, target.Moves(), r.Insert.Index.Moves)
			}
		}
	}
}

// Of many rows fewer queries are asked, but of each selectivity enough for an interval.
// Every candidate is asked first as often as the others, of the queries of each selectivity.
func TestTurnsOfQueries(t *testing.T) {
	for candidates := 1; candidates <= 8; candidates++ {
		for selectivities := 1; selectivities <= 4; selectivities++ {
			first := make(map[[2]int]int) // by selectivity and candidate
			for q := range 5 * candidates * selectivities {
				first[[2]int{q % selectivities, turnOf(q, selectivities) % candidates}]++
			}
			require.Len(t, first, candidates*selectivities)
			for at, n := range first {
				require.Equal(t, 5, n, "%v of %d candidates and %d selectivities", at, candidates, selectivities)
			}
		}
	}
}

func TestChooseQueries(t *testing.T) {
	shares := []float64{0.001, 0.01, 0.1}
	for rows, want := range map[int]int{1: 200, 20_000: 200, 60_000: 200, 336_776: 39, 1_000_000: 15, 100_000_000: 15} {
		require.Equal(t, want, ChooseQueries(rows, shares), rows)
	}
	require.Equal(t, 5, ChooseQueries(1_000_000, []float64{1}))
}

// What is much is announced before it is done.
func TestLargeInputIsTold(t *testing.T) {
	for n, want := range map[int]int{1000: 0, manyRows: 1} {
		source, err := values.Generate("uniform", n, 1, "", "")
		require.NoError(t, err)
		var told []string
		report, err := Run(ctx, openStore(t, drivertest.NewMemory()), Config{
			Source: source, Schemes: []string{benchtable.Plain}, Selectivities: []float64{0.001}, Batch: 1000, Writers: 2, Tell: func(s string) { told = append(told, s) },
		})
		require.NoError(t, err)
		require.Equal(t, 200, report.Queries)
		require.Equal(t, 200, report.Results[0].Verified)
		require.GreaterOrEqual(t, len(told), want)
		if want > 0 {
			require.Contains(t, told[0], "100000 rows for each of 1 tables, then 200 queries of each, of 100 rows")
		}
	}
}

// The bare client answers as tables do, beside them, has as many bytes as plain rows, and leaves nothing.
func TestBare(t *testing.T) {
	for _, name := range []string{"int8", "int32", "int64", "uint16"} {
		source, err := values.Generate("uniform", 1500, 1, name, "")
		require.NoError(t, err)
		dir := t.TempDir()
		report, err := Run(ctx, openStore(t, drivertest.NewMemory()), Config{
			Source: source, Schemes: []string{benchtable.Plain, "kerschbaum"}, Queries: 21, Selectivities: []float64{0.01, 0.2}, Batch: 10, Writers: 3, Seed: 4,
			Bare: func(context.Context) (bare.Store, error) { return bare.OpenPebble(dir) },
		})
		require.NoError(t, err)
		require.Len(t, report.Results, 4)
		b, plain := report.Results[0], report.Results[1]
		require.Equal(t, benchtable.Target{Scheme: Bare, Layout: benchtable.LayoutKey}, b.Target)
		require.Equal(t, 21, b.Verified)
		require.True(t, b.Whole)
		require.InDelta(t, plain.StoredBytes, b.StoredBytes, 0.5)
		require.Positive(t, b.DiskBytes)
		require.Zero(t, b.Insert.Ratio.Pairs)
		for _, r := range report.Results {
			require.GreaterOrEqual(t, r.Insert.Bare.Pairs, minPairs)
			require.Equal(t, 21, r.Query.Bare.Pairs)
		}
		require.Equal(t, 1.0, b.Insert.Bare.Value)
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// Every overhead is one over plaintext on the same layout; what is needed for that is measured
// where plain is asked for.
func TestTargets(t *testing.T) {
	key := func(scheme string) benchtable.Target {
		return benchtable.Target{Scheme: scheme, Layout: benchtable.LayoutKey}
	}
	column := func(scheme string) benchtable.Target {
		return benchtable.Target{Scheme: scheme, Layout: benchtable.LayoutColumn}
	}
	for _, test := range []struct {
		layout  benchtable.Layout
		schemes []string
		want    []benchtable.Target
	}{
		{"", []string{"plain", "mope", "wozniak", "kerschbaum"}, []benchtable.Target{key("plain"), key("mope"), key("wozniak"), column("plain-indexed"), column("kerschbaum")}},
		{benchtable.LayoutColumn, []string{"plain", "mope", "kerschbaum"}, []benchtable.Target{column("plain"), column("mope"), column("plain-indexed"), column("kerschbaum")}},
		{benchtable.LayoutKey, []string{"plain", "wozniak-indexed"}, []benchtable.Target{key("plain"), key("wozniak-indexed")}},
		{"", []string{"kerschbaum", "plain", "kerschbaum-paper"}, []benchtable.Target{column("plain-indexed"), column("kerschbaum"), key("plain"), column("kerschbaum-paper")}},
		{"", []string{"plain", "kerschbaum", "plain-indexed"}, []benchtable.Target{key("plain"), column("kerschbaum"), column("plain-indexed")}},
		{"", []string{"kerschbaum"}, []benchtable.Target{column("kerschbaum")}},
	} {
		got, err := benchtable.Targets(test.schemes, test.layout)
		require.NoError(t, err)
		require.Equal(t, test.want, got, "%v %s", test.schemes, test.layout)
	}
	for _, test := range []struct {
		layout  benchtable.Layout
		schemes []string
		want    string
	}{
		{benchtable.LayoutKey, []string{"plain", "kerschbaum"}, "the ciphertexts of kerschbaum move, and no database can rename a row: give --layout column"},
		{"row", []string{"plain"}, "unknown layout"},
		{"", []string{"plain", "rot13"}, "unknown scheme"},
	} {
		_, err := benchtable.Targets(test.schemes, test.layout)
		require.ErrorIs(t, err, exit.ErrUsage)
		require.ErrorContains(t, err, test.want)
	}
}

// What the published scheme pays for sorted values, and the default does not, is in the report.
func TestMovesAreCounted(t *testing.T) {
	source, err := values.Generate("uniform", 600, 1, "int16", "sorted")
	require.NoError(t, err)
	report, err := Run(ctx, openStore(t, drivertest.NewMemory()), Config{
		Source: source, Schemes: []string{"kerschbaum-paper", "kerschbaum"}, Queries: 3, Selectivities: []float64{0.1}, Batch: 7, Writers: 1, Seed: 1,
	})
	require.NoError(t, err)
	published, local := report.Results[0].Insert.Index, report.Results[1].Insert.Index
	require.Greater(t, published.Rebalances, 3)
	require.Greater(t, published.Moved, 600)
	require.Zero(t, local.Rebalances)
	require.Zero(t, local.Relabels)
	require.Zero(t, local.Moved)
}

// Values that an index has no room for are refused before anything is written.
func TestTooManyDistinctValues(t *testing.T) {
	drawn := func(yield func(int64, error) bool) {
		for i := range int64(30) {
			if !yield(i/2, nil) {
				return
			}
		}
	}
	n := 0
	for _, err := range atMostDistinct(drawn, 15, "kerschbaum") {
		require.NoError(t, err)
		n++
	}
	require.Equal(t, 30, n)
	n = 0
	for _, err := range atMostDistinct(drawn, 14, "kerschbaum") {
		if n++; n == 29 {
			require.ErrorIs(t, err, exit.ErrUsage)
			require.ErrorContains(t, err, "more than 14 different values, and the index of kerschbaum")
		} else {
			require.NoError(t, err)
		}
	}
	require.Equal(t, 29, n)

	db := drivertest.NewMemory()
	s := openStore(t, db)
	source, err := values.Generate("uniform", maxIndexed+1000, 1, "int64", "")
	require.NoError(t, err)
	_, err = Run(ctx, s, Config{
		Source: source, Schemes: []string{"plain", "wozniak-indexed"}, Queries: 3, Selectivities: []float64{0.1}, Batch: 100, Writers: 1, Seed: 1,
	})
	require.ErrorIs(t, err, exit.ErrUsage)
	names, err := s.Tables(ctx)
	require.NoError(t, err)
	require.Empty(t, names)
}

func TestRunEndsWithItsContext(t *testing.T) {
	source, err := values.Generate("uniform", 100_000, 1, "", "")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(ctx)
	n := 0
	db := intercept.WithLatency(drivertest.NewMemory(), func() time.Duration {
		if n++; n == 50 {
			cancel()
		}
		return 0
	})
	report, err := Run(ctx, openStore(t, db), Config{
		Source: source, Schemes: []string{"plain", "mope"}, Layout: benchtable.LayoutKey, Queries: 3, Selectivities: []float64{0.1}, Batch: 100, Writers: 1, Seed: 1,
	})
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, report.Complete)
	require.Less(t, report.Inserted, 100_000)
	require.Len(t, report.Results, 2)
}

// BenchmarkRange measures how many rows a second come out of the embedded store, decrypted.
func BenchmarkRange(b *testing.B) {
	names, _ := benchtable.Schemes()
	for _, layout := range []benchtable.Layout{benchtable.LayoutKey, benchtable.LayoutColumn} {
		for _, name := range names {
			if _, err := benchtable.TargetOf(name, layout); err != nil {
				continue
			}
			b.Run(benchtable.Target{Scheme: name, Layout: layout}.Name(), func(b *testing.B) {
				db, err := pebble.Open(b.TempDir(), nil)
				require.NoError(b, err)
				defer func() { require.NoError(b, db.Close()) }()
				s := openStore(b, db)
				table, _, err := s.Create(ctx, benchtable.Target{Scheme: name, Layout: layout}, kind(b, "int32"), "c", false)
				require.NoError(b, err)
				source, err := values.Generate("uniform", 50_000, 1, "", "")
				require.NoError(b, err)
				_, err = Insert(ctx, table, s.Load(1), source, 0, 1000, 2, nil)
				require.NoError(b, err)
				b.ReportAllocs()
				rows := 0
				for b.Loop() {
					for _, err := range table.Range(ctx, -1<<29, 1<<29, 0) {
						if err != nil {
							b.Fatal(err)
						}
						rows++
					}
				}
				b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}
