package store_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

func Example() {
	dir, _ := os.MkdirTemp("", "rangecrypt")
	defer os.RemoveAll(dir)
	if err := readme(context.Background(), dir, ope.GenerateKey()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// pump-7 21.5
	// pump-9 24
}

// The lines between the marks stand in the README.
func readme(ctx context.Context, dir string, key ope.Key) error {
	// BEGIN
	db, err := pebble.Open(dir, nil) // or cassandra.Open, hbase.Open
	if err != nil {
		return err
	}
	defer db.Close()
	st, err := store.Open(ctx, db, key, nil)
	if err != nil {
		return err
	}
	readings, err := st.Create(ctx, store.Schema{
		Name:    "readings",
		Key:     []store.KeyPart{store.HashedPart("device", store.String)},
		Columns: []store.Column{store.OrderedColumn("celsius", store.Float64, store.Boldyreva)},
	})
	if err != nil {
		return err
	}
	err = readings.Put(ctx,
		store.Row{"device": "pump-7", "celsius": 21.5},
		store.Row{"device": "pump-8", "celsius": -3.0},
		store.Row{"device": "pump-9", "celsius": 24.0})
	if err != nil {
		return err
	}
	const celsius = store.Field[float64]("celsius")
	for row, err := range readings.Query(ctx, store.Query{Where: celsius.Between(18, 25)}) {
		if err != nil {
			return err
		}
		fmt.Println(row["device"], row["celsius"])
	}
	// END
	return nil
}

// The example of the README is the one above.
func TestReadme(t *testing.T) {
	source, err := os.ReadFile("readme_test.go")
	require.NoError(t, err)
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	body := regexp.MustCompile(`(?s)\t// BEGIN\n(.*?)\t// END\n`).FindSubmatch(source)
	require.NotNil(t, body)
	shown := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(text)
	require.NotNil(t, shown)
	var lines []string
	for line := range strings.Lines(string(body[1])) {
		lines = append(lines, strings.TrimPrefix(line, "\t"))
	}
	require.Equal(t, strings.Join(lines, ""), string(shown[1]))
}
