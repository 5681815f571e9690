package rowload

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/celltext"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/tabular"
	"github.com/rangecrypt/rangecrypt/internal/cli/progress"
	"github.com/rangecrypt/rangecrypt/internal/cli/values"
	"github.com/rangecrypt/rangecrypt/internal/rowsize"
	"github.com/rangecrypt/rangecrypt/store"
)

// A growing table has another program append a row to the input for each row that it gets.
type growing struct {
	file string
	rows int
}

func (g *growing) Put(_ context.Context, rows ...store.Row) error {
	f, err := os.OpenFile(g.file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	for range rows {
		g.rows++
		if _, err := fmt.Fprintf(f, "%d\n", 1000+g.rows); err != nil {
			return err
		}
	}
	return f.Close()
}

func (g *growing) Insert(ctx context.Context, rows ...store.Row) error { return g.Put(ctx, rows...) }

func (g *growing) GetBatch(_ context.Context, keys []store.Row, _ ...string) ([]store.Row, error) {
	return make([]store.Row, len(keys)), nil
}

func (g *growing) Schema() store.Schema {
	return store.Schema{Key: []store.KeyPart{store.HashedPart("id", store.Int64)}}
}

// A sized table counts batches, and the bytes of the largest.
type sized struct {
	mu            sync.Mutex
	rows, largest int
}

func (z *sized) Put(_ context.Context, rows ...store.Row) error {
	z.mu.Lock()
	defer z.mu.Unlock()
	n := 0
	for _, row := range rows {
		n += len(row["text"].(string))
	}
	z.rows, z.largest = z.rows+len(rows), max(z.largest, n)
	return nil
}

func (z *sized) Insert(ctx context.Context, rows ...store.Row) error { return z.Put(ctx, rows...) }

func (z *sized) Schema() store.Schema {
	return store.Schema{Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{store.RandomisedColumn("text", store.String)}}
}

func (z *sized) GetBatch(_ context.Context, keys []store.Row, _ ...string) ([]store.Row, error) {
	return make([]store.Row, len(keys)), nil
}

// An altered table has its column text renamed when it has the first row.
type altered struct {
	sized
	name string
}

func (a *altered) Put(ctx context.Context, rows ...store.Row) error {
	if a.name != "text" {
		return &store.RowError{Index: 0, Err: fmt.Errorf("%w %q", store.ErrColumn, "text")}
	}
	a.name = "words"
	return a.sized.Put(ctx, rows...)
}

func (a *altered) Insert(ctx context.Context, rows ...store.Row) error { return a.Put(ctx, rows...) }

func (a *altered) Schema() store.Schema {
	return store.Schema{Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{store.RandomisedColumn(a.name, store.String)}}
}

// A column that goes while rows come in ends the load. It makes no row a bad one, which would be left out.
func TestColumnOfALoadGoes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rows.csv")
	require.NoError(t, os.WriteFile(file, []byte("id,text\n1,a\n2,b\n3,c\n"), 0o600))
	l := loadOf(t, file, store.RandomisedColumn("text", store.String))
	l.SkipBad = true
	l.MaxBad = store.Must(values.ParseMaxBad("100%"))
	require.NoError(t, l.Check(t.Context()))
	done, err := l.Insert(t.Context(), &altered{name: "text"})
	require.ErrorIs(t, err, store.ErrSchemaChanged)
	require.ErrorContains(t, err, "column text was renamed or dropped while rows came in")
	require.Equal(t, 1, done.Rows)
	require.Zero(t, l.Bad.Rows)
}

// Of large rows few are sent together, whatever Batch says.
func TestBatchesOfLargeRows(t *testing.T) {
	const rows, size = 30, 1 << 19
	text := strings.Repeat("x", size)
	var csv strings.Builder
	csv.WriteString("id,text\n")
	for i := range rows {
		fmt.Fprintf(&csv, "%d,%s\n", i, text)
	}
	file := filepath.Join(t.TempDir(), "rows.csv")
	require.NoError(t, os.WriteFile(file, []byte(csv.String()), 0o600))
	l := loadOf(t, file, store.RandomisedColumn("text", store.String))
	l.Batch, l.Writers = 100, 2
	require.NoError(t, l.Check(t.Context()))
	table := new(sized)
	done, err := l.Insert(t.Context(), table)
	require.NoError(t, err)
	require.Equal(t, rows, done.Rows)
	require.Equal(t, rows, table.rows)
	require.Equal(t, rowsize.Enough, table.largest)
}

// loadOf returns a load of a file of CSV into a table whose key is the integer id.
func loadOf(t *testing.T, file string, columns ...store.Column) *Load {
	var in tabular.Input
	var flags celltext.Flags
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	in.Bind(f)
	flags.BindRead(f)
	require.NoError(t, f.Parse([]string{"--input", file}))
	require.NoError(t, in.Check())
	format, err := flags.Format()
	require.NoError(t, err)
	of, err := format.Columns(store.Schema{Name: "t", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: columns})
	require.NoError(t, err)
	names, err := NamesOf(of, false, nil, nil)
	require.NoError(t, err)
	l := &Load{Input: &in, Names: names, Key: []string{"id"}, Bar: progress.None{}, Batch: 1, Writers: 1}
	_, err = l.Begin("")
	require.NoError(t, err)
	return l
}

// A file that grows is not followed: no row is put that was not checked, and the load ends.
func TestInputGrows(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rows.csv")
	require.NoError(t, os.WriteFile(file, []byte("id\n1\n2\n3\n4\n"), 0o600))
	l := loadOf(t, file)
	require.NoError(t, l.Check(t.Context()))
	table := &growing{file: file}
	done, err := l.Insert(t.Context(), table)
	require.ErrorIs(t, err, ErrChanged)
	require.ErrorContains(t, err, "it has more rows by now")
	require.LessOrEqual(t, table.rows, 4)
	require.Equal(t, table.rows, done.Rows)
}
