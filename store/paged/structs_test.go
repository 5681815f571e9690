package paged_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

func ExampleFor() {
	type reading struct {
		At      int64    `rangecrypt:"at,key=1,ordered=mope"`
		Celsius *float64 `rangecrypt:"celsius"`
		Model   string   `rangecrypt:"model,plain"`
	}
	ctx := context.Background()
	st, err := store.Open(ctx, drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := paged.Create(ctx, st, store.Must(store.SchemaOf[reading]("readings")), 64); err != nil {
		log.Fatal(err)
	}
	readings, err := paged.For[reading](ctx, st, "readings")
	if err != nil {
		log.Fatal(err)
	}
	warm := 21.5
	if err := readings.Put(ctx, &reading{At: 1, Celsius: &warm, Model: "a"}, &reading{At: 2, Model: "b"}); err != nil {
		log.Fatal(err)
	}
	if err := readings.Update(ctx, &reading{At: 1, Model: "c"}, "model"); err != nil {
		log.Fatal(err)
	}
	for r, err := range readings.Query(ctx, store.Query{Where: store.Not(store.IsNull("celsius"))}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.At, *r.Celsius, r.Model)
	}
	// Output: 1 21.5 c
}

type sample struct {
	Who  string    `rangecrypt:"who,key=1,hashed"`
	At   time.Time `rangecrypt:"at,key=2,ordered=mope,unit=s"`
	ID   store.Tie `rangecrypt:"id,key=3"`
	Note *string   `rangecrypt:"note"`
	Size int32     `rangecrypt:"size,plain"`
}

func TestStructs(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	st, other := opened(t, db), opened(t, db)
	_, err := paged.For[sample](ctx, st, "t")
	require.ErrorIs(t, err, store.ErrNoTable)
	_, err = paged.Create(ctx, st, store.Must(store.SchemaOf[sample]("t")), 4)
	require.NoError(t, err)
	of, err := paged.For[sample](ctx, st, "t")
	require.NoError(t, err)
	require.Equal(t, 4, of.Table().PageRows())
	require.Equal(t, "t", of.Table().Schema().Name)

	at := time.Unix(1_000_000, 0).UTC()
	text := "a note"
	row := &sample{Who: "w", At: at, Note: &text, Size: 7}
	require.NoError(t, of.Put(ctx, row))
	require.NotZero(t, row.ID, "which was drawn")
	require.NoError(t, of.Put(ctx, row), "again, and the same row")
	again := &sample{Who: "w", At: at}
	require.NoError(t, of.Put(ctx, again))
	require.NotEqual(t, row.ID, again.ID)
	n, err := of.Table().Count(ctx, store.And())
	require.NoError(t, err)
	require.Equal(t, 2, n)

	got, err := of.Get(ctx, &sample{Who: "w", At: at, ID: row.ID})
	require.NoError(t, err)
	require.Equal(t, row, got)
	_, err = of.Get(ctx, &sample{Who: "none", At: at, ID: row.ID})
	require.ErrorIs(t, err, store.ErrNoRow)
	row.Size, row.Note = 8, nil
	require.NoError(t, of.Update(ctx, row, "size"))
	got, err = of.Get(ctx, row)
	require.NoError(t, err)
	require.Equal(t, &text, got.Note, "which was not named")
	require.Equal(t, int32(8), got.Size)
	require.NoError(t, of.Update(ctx, row))
	got, err = of.Get(ctx, row)
	require.NoError(t, err)
	require.Equal(t, row, got)
	require.NoError(t, of.Delete(ctx, again))

	for q, want := range map[*store.Query]sample{
		{}:                          {Who: "w", At: at, ID: row.ID, Size: 8},
		{Columns: []string{}}:       {Who: "w", At: at, ID: row.ID},
		{Columns: []string{"size"}}: {Who: "w", At: at, ID: row.ID, Size: 8},
		{Unauthenticated: true}:     {ID: row.ID, Size: 8}, // the other parts are encrypted
	} {
		found := 0
		for got, err := range of.Query(ctx, *q) {
			require.NoError(t, err)
			if q.Unauthenticated {
				got.ID = row.ID // which may be
			}
			require.Equal(t, want, *got)
			found++
		}
		require.Equal(t, 1, found)
	}
	require.NoError(t, of.Put(ctx, again))
	for range of.Query(ctx, store.Query{}) {
		break // of two
	}
	require.NoError(t, of.Delete(ctx, again))
	require.ErrorIs(t, of.Delete(ctx, &sample{Who: "w", At: at}), store.ErrColumn, "no tie-breaker is drawn for a row that is to be there")

	// What does not fit is said, before the schema changes and after.
	var row2 *sample
	var bad *store.RowError
	require.ErrorAs(t, of.Put(ctx, row, row2), &bad)
	require.Equal(t, 1, bad.Index)
	_, err = paged.For[struct {
		Who string `rangecrypt:"who,key=1,hashed"`
	}](ctx, st, "t")
	require.ErrorIs(t, err, store.ErrColumn)
	_, err = paged.For[int](ctx, st, "t")
	require.ErrorIs(t, err, store.ErrSchema)
	require.NoError(t, other.Alter(ctx, "t", store.AddColumn(store.RandomisedColumn("more", store.Int64))))
	err = of.Put(ctx, row)
	require.ErrorIs(t, err, store.ErrSchemaChanged)
	require.ErrorIs(t, err, store.ErrWritten)
	require.ErrorIs(t, of.Put(ctx, row), store.ErrSchemaChanged)
	fewer, err := paged.For[sample](ctx, st, "t", store.AllowUnmapped)
	require.NoError(t, err)
	err = fewer.Put(ctx, row)
	require.ErrorIs(t, err, store.ErrColumn, "it would make a column null")
	require.NotErrorIs(t, err, store.ErrWritten)
	row.Size = 9
	require.NoError(t, fewer.Update(ctx, row))
	got, err = fewer.Get(ctx, row)
	require.NoError(t, err)
	require.Equal(t, int32(9), got.Size)
	for got, err := range fewer.Query(ctx, store.Query{}) {
		require.NoError(t, err)
		require.Equal(t, int32(9), got.Size)
	}
}

// A page that was read has up to 64 rows: they are no reason to go on when the caller has gone away.
func TestQueriesEndWithTheirContext(t *testing.T) {
	st := opened(t, drivertest.NewMemory())
	rows, err := paged.Create(t.Context(), st, keyings[2].schema(), 0)
	require.NoError(t, err)
	for n := range 40 {
		require.NoError(t, rows.Put(t.Context(), keyings[2].row(n)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	var last error
	for _, err := range rows.Query(ctx, store.Query{}) {
		if last = err; err == nil {
			n++
		}
		if n == 3 {
			cancel()
		}
	}
	require.ErrorIs(t, last, context.Canceled)
	require.Equal(t, 3, n)
}

// Each call is observed once. One that is refused before it reads or writes is so as any other that fails.
func TestCallsAreObserved(t *testing.T) {
	ctx := t.Context()
	var lines bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
	spans := tracetest.NewInMemoryExporter()
	st, err := store.Open(ctx, drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), &store.Options{
		Logger: logger, TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)),
	})
	require.NoError(t, err)
	_, err = paged.Create(ctx, st, store.Must(store.SchemaOf[sample]("t")), 4)
	require.NoError(t, err)
	of := store.Must(paged.For[sample](ctx, st, "t"))
	x := &sample{Who: "w"}
	require.NoError(t, of.Put(ctx, x))
	calls := map[string]func() error{
		"put":    func() error { return of.Put(ctx, x) },
		"update": func() error { return of.Update(ctx, x) },
		"delete": func() error { return of.Delete(ctx, x) },
		"get":    func() error { _, err := of.Get(ctx, x); return err },
		"query": func() error {
			for _, err := range of.Query(ctx, store.Query{}) {
				return err
			}
			return nil
		},
	}
	verify := func() error { _, err := of.Table().Verify(ctx); return err }
	nothing := func() error {
		_, err := of.Table().Get(ctx, store.Row{"who": "nobody", "at": x.At, "id": x.ID})
		return err
	}
	for _, c := range []struct {
		name string
		call func() error
		rows int
	}{{"put", calls["put"], 1}, {"update", calls["update"], 1}, {"get", calls["get"], 1}, {"get", nothing, 0}, {"query", calls["query"], 1}, {"verify", verify, 1}, {"delete", calls["delete"], 1}} {
		spans.Reset()
		require.NoError(t, c.call(), c.name)
		all := slices.DeleteFunc(spans.GetSpans(), func(s tracetest.SpanStub) bool { return s.SpanKind == trace.SpanKindClient })
		require.Len(t, all, 1, c.name)
		require.Equal(t, "rangecrypt."+c.name, all[0].Name)
		require.Contains(t, all[0].Attributes, attribute.Int("rangecrypt.rows", c.rows), c.name)
	}
	require.NoError(t, st.Alter(ctx, "t", store.RenameColumn("note", "remark")))
	for name, call := range calls {
		lines.Reset()
		require.ErrorIs(t, call(), store.ErrSchemaChanged, name)
		require.Equal(t, 1, strings.Count(lines.String(), "\n"), "%s: %s", name, &lines)
		require.Contains(t, lines.String(), "level=WARN msg=\"an operation failed\" operation="+name+" ")
	}
}

// A query that opens nothing has the plain columns that have a field, also where other columns have none.
func TestStructsOfSomeColumnsUnauthenticated(t *testing.T) {
	type whole struct {
		ID     int64  `rangecrypt:"id,key=1,plain"`
		Secret string `rangecrypt:"secret"`
		Model  string `rangecrypt:"model,plain"`
		Place  string `rangecrypt:"place,plain"`
	}
	type some struct {
		ID     int64  `rangecrypt:"id,key=1,plain"`
		Secret string `rangecrypt:"secret"`
		Model  string `rangecrypt:"model,plain"`
	}
	st, err := store.Open(t.Context(), drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	_, err = paged.Create(t.Context(), st, store.Must(store.SchemaOf[whole]("t")), 8)
	require.NoError(t, err)
	all, err := paged.For[whole](t.Context(), st, "t")
	require.NoError(t, err)
	require.NoError(t, all.Put(t.Context(), &whole{1, "s", "m", "p"}))
	of, err := paged.For[some](t.Context(), st, "t", store.AllowUnmapped)
	require.NoError(t, err)
	rows := of.Query(t.Context(), store.Query{Unauthenticated: true})
	for range 2 {
		for row, err := range rows {
			require.NoError(t, err)
			require.Equal(t, &some{ID: 1, Model: "m"}, row)
		}
	}
	for row, err := range of.Query(t.Context(), store.Query{}) {
		require.NoError(t, err)
		require.Equal(t, &some{1, "s", "m"}, row)
	}

	// The names of columns may be changed as soon as Query has returned.
	names := []string{"model"}
	rows, maps := of.Query(t.Context(), store.Query{Columns: names}), of.Table().Query(t.Context(), store.Query{Columns: names})
	names[0] = "secret"
	for row, err := range rows {
		require.NoError(t, err)
		require.Equal(t, &some{ID: 1, Model: "m"}, row)
	}
	for row, err := range maps {
		require.NoError(t, err)
		require.Equal(t, store.Row{"id": int64(1), "model": "m"}, row)
	}
}

// A client that learns from the page which it reads that a column has another name gives no struct without the value.
func TestStructsOfRowsThatHaveOtherNames(t *testing.T) {
	type row struct {
		ID   int64   `rangecrypt:"id,key=1,plain"`
		Note *string `rangecrypt:"note"`
		Size int64   `rangecrypt:"size"`
	}
	for _, name := range []string{"id", "note", "size"} {
		t.Run(name, func(t *testing.T) {
			db, text := drivertest.NewMemory(), "a text"
			st := opened(t, db)
			tbl, err := paged.Create(t.Context(), st, store.Must(store.SchemaOf[row]("t")), 8)
			require.NoError(t, err)
			require.NoError(t, tbl.Put(t.Context(), store.Row{"id": 1, "note": text, "size": 2}))
			reader := func() *paged.TableOf[row] { return store.Must(paged.For[row](t.Context(), opened(t, db), "t")) }
			gets, asks := reader(), reader()
			require.NoError(t, st.Alter(t.Context(), "t", store.RenameColumn(name, "other")))
			require.NoError(t, st.RotateKeys(t.Context(), "t"))
			c, err := tbl.Reseal(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, c.Resealed)
			got, err := gets.Get(t.Context(), &row{ID: 1})
			require.ErrorIs(t, err, store.ErrSchemaChanged)
			require.Nil(t, got)
			for got, err := range asks.Query(t.Context(), store.Query{}) {
				require.ErrorIs(t, err, store.ErrSchemaChanged)
				require.Nil(t, got)
			}
		})
	}
}

// What is said where a column of pages is in the clear, and a tag says that it is sealed, can be done: its encryption is never changed.
func TestStructsOfColumnsInTheClear(t *testing.T) {
	type clear struct {
		ID   int64  `rangecrypt:"id,key=1,plain"`
		Note string `rangecrypt:"note,plain"`
	}
	type sealed struct {
		ID   int64  `rangecrypt:"id,key=1,plain"`
		Note string `rangecrypt:"note,randomised"`
	}
	st := opened(t, drivertest.NewMemory())
	_, err := paged.Create(t.Context(), st, store.Must(store.SchemaOf[clear]("t")), 8)
	require.NoError(t, err)
	_, err = paged.For[sealed](t.Context(), st, "t")
	require.ErrorContains(t, err, "write plain, or make a table whose column is sealed, and bring the rows into it")
	require.ErrorIs(t, st.Alter(t.Context(), "t", store.ChangeColumn(store.RandomisedColumn("note", store.String))), store.ErrSchema)
	_, err = paged.For[clear](t.Context(), st, "t")
	require.NoError(t, err)
}
