package store

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// Rows of a call that failed are not counted as written, and a line in the log says that it failed.
func TestFailuresAreObserved(t *testing.T) {
	ctx, down := context.Background(), false
	db := drivertest.NewFaulty(drivertest.NewMemory(), func(drivertest.Op) drivertest.Fault {
		if down {
			return drivertest.FailBefore
		}
		return drivertest.NoFault
	})
	var log, counts bytes.Buffer
	st, err := Open(ctx, db, kms.NewLocal(testMaster), &Options{Logger: textLogger(&log), MeterProvider: metering{out: &counts}})
	require.NoError(t, err)
	tbl, err := st.Create(ctx, Schema{
		Name: "t", Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{OrderedColumn("c", Int64, MOPE)},
	})
	require.NoError(t, err)
	rows := []Row{{"id": 1, "c": 7654321}, {"id": 2, "c": 7654321}}
	require.NoError(t, tbl.Put(ctx, rows...))
	require.Contains(t, counts.String(), "rangecrypt.rows 2 error=false rangecrypt.operation=put")
	require.Empty(t, log.String())

	down = true
	require.Error(t, tbl.Put(ctx, rows...))
	require.Contains(t, counts.String(), "rangecrypt.rows 0 error=true rangecrypt.operation=put")
	require.Contains(t, log.String(), "an operation failed")
	require.Contains(t, log.String(), "level=WARN")
	require.Contains(t, log.String(), "operation=put")
	require.Contains(t, log.String(), "retryable=true")
	_, err = tbl.Get(ctx, Row{"id": 1})
	require.Error(t, err)
	require.Contains(t, counts.String(), "rangecrypt.rows 0 error=true rangecrypt.operation=get")
	require.Error(t, tbl.Delete(ctx, rows...))
	require.Contains(t, counts.String(), "rangecrypt.rows 0 error=true rangecrypt.operation=delete")

	down = false
	log.Reset()
	for _, mistake := range []Row{{"id": 3, "c": "7654321"}, {"id": 3, "c": uint64(math.MaxUint64)}, {"id": 3, "d": 7654321}} {
		require.Error(t, tbl.Put(ctx, rows[0], mistake))
	}
	_, err = tbl.Get(ctx, Row{"id": "7654321"})
	require.ErrorIs(t, err, ErrColumn)
	for _, err := range tbl.Query(ctx, Query{Where: Field[string]("c").Equal("7654321")}) {
		require.ErrorIs(t, err, ErrColumn)
	}
	_, err = st.Create(ctx, Schema{Name: "t"})
	require.ErrorIs(t, err, ErrSchema)
	require.Equal(t, 6, strings.Count(log.String(), "an operation failed"), log.String())
	require.Contains(t, log.String(), "row 1")
	require.NotContains(t, log.String(), "7654321")
	require.NotContains(t, log.String(), "level=WARN", "its caller is told; nothing is wrong with the database")
	none, err := tbl.Get(ctx, Row{"id": 9})
	require.NoError(t, err)
	require.Nil(t, none)
	require.Contains(t, counts.String(), "rangecrypt.rows 0 error=false rangecrypt.operation=get")
	require.Equal(t, 3, written(10, &BatchError{Failed: []int{3, 4, 5, 6, 7, 8, 9}}))
}

// Every operation is named where the page on operations lists them, and no other one.
func TestOperationsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "operations.md"))
	require.NoError(t, err)
	_, list, found := strings.Cut(string(page), "The operations are")
	require.True(t, found)
	list, _, found = strings.Cut(list, "`rangecrypt.family`")
	require.True(t, found)
	quoted := func(pattern, text string) (names []string) {
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			names = append(names, match[1])
		}
		return names
	}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	operations := map[string]bool{}
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, name := range quoted(`Operation\(ctx, "([^"]+)"`, string(source)) {
			operations[name] = true
		}
	}
	require.NotEmpty(t, operations)
	require.ElementsMatch(t, slices.Collect(maps.Keys(operations)), quoted("`([a-z ]+)`", list))
}

func textLogger(out io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
