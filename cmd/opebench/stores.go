package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

// A storeKind is a kind of database that --store can name.
type storeKind struct {
	scheme string // before the colon
	usage  string
	open   openFunc // of what is behind the colon
}

// An openFunc opens a database. Without create, one that does not exist is an error and is not
// made.
type openFunc func(ctx context.Context, name string, create bool) (driver.DB, error)

// storeKinds lists them; names are validated against it and opened from it.
func storeKinds() []storeKind {
	return []storeKind{
		{scheme: "pebble", usage: "pebble:DIR", open: openPebble},
	}
}

func storeUsages() string {
	var usages []string
	for _, k := range storeKinds() {
		usages = append(usages, k.usage)
	}
	return strings.Join(usages, ", ")
}

// checkStore returns an error unless the name is of a known kind.
func checkStore(name string) error {
	_, _, err := splitStore(name)
	return err
}

func splitStore(name string) (storeKind, string, error) {
	scheme, rest, _ := strings.Cut(name, ":")
	i := slices.IndexFunc(storeKinds(), func(k storeKind) bool { return k.scheme == scheme })
	if i < 0 || rest == "" {
		return storeKind{}, "", usagef("unknown store %q: there is %s", name, storeUsages())
	}
	return storeKinds()[i], rest, nil
}

// openStore opens the database that --store names.
func openStore(ctx context.Context, name string, create bool) (driver.DB, error) {
	kind, rest, err := splitStore(name)
	if err != nil {
		return nil, err
	}
	return kind.open(ctx, rest, create)
}

func openPebble(_ context.Context, dir string, create bool) (driver.DB, error) {
	if !create {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no store in %s; 'opebench insert' makes one: %w", dir, fs.ErrNotExist)
		}
	}
	return pebble.Open(dir, nil)
}

// temporary is the name that reports give to a store that is removed in the end.
const temporary = "embedded store"
