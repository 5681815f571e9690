// Put is what a program of its own does to fill the table: it reads the CSV and puts the rows, in batches and from as many
// goroutines as 'rangecrypt table insert' has. It prints the seconds that it took.
package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

const batch, writers = 100, 4

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: put FLIGHTS.csv FOLDER KEY-FILE")
	}
	if err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, input, folder, keyFile string) (err error) {
	key, err := kms.ReadFile(keyFile)
	if err != nil {
		return err
	}
	db, err := pebble.Open(folder, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	st, err := store.Open(ctx, db, kms.NewLocal(key), nil)
	if err != nil {
		return err
	}
	table, err := st.Table(ctx, "flights")
	if err != nil {
		return err
	}
	file, err := os.Open(input)
	if err != nil {
		return err
	}
	defer file.Close()
	began := time.Now()
	batches := make(chan []store.Row, writers)
	group, working := errgroup.WithContext(ctx)
	for range writers {
		group.Go(func() error {
			for rows := range batches {
				if err := table.Put(working, rows...); err != nil {
					return err
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		defer close(batches)
		return read(working, csv.NewReader(file), batches)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if err := st.Close(ctx); err != nil {
		return err
	}
	fmt.Printf("%.2f\n", time.Since(began).Seconds())
	return nil
}

func read(ctx context.Context, r *csv.Reader, batches chan<- []store.Row) error {
	r.ReuseRecord = true
	names, err := r.Read()
	if err != nil {
		return err
	}
	names = append([]string(nil), names...)
	text := map[string]bool{"carrier": true, "tailnum": true, "origin": true, "dest": true}
	var rows []store.Row
	for {
		cells, err := r.Read()
		if err == io.EOF || len(rows) == batch {
			select {
			case batches <- rows:
			case <-ctx.Done():
				return ctx.Err()
			}
			rows = nil
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		row := make(store.Row, len(cells))
		for i, cell := range cells {
			switch {
			case cell == "":
			case text[names[i]]:
				row[names[i]] = cell
			case names[i] == "time_hour":
				if row[names[i]], err = time.Parse(time.RFC3339, cell); err != nil {
					return err
				}
			default:
				n, err := strconv.Atoi(cell)
				if err != nil {
					return err
				}
				row[names[i]] = n
			}
		}
		rows = append(rows, row)
	}
}
