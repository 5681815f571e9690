package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/rangecrypt/rangecrypt/store/cassandra"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/hbase"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

// A storeKind is a kind of database that --store can name.
type storeKind struct {
	scheme string // before the colon
	usage  string
	check  func(name string) error // of what is behind the colon; may be nil
	open   openFunc
}

// An openFunc opens a database. Without create, one that does not exist is an error and is not
// made.
type openFunc func(ctx context.Context, name string, create bool) (driver.DB, error)

// storeKinds lists them; names are validated against it and opened from it.
func storeKinds() []storeKind {
	return []storeKind{
		{scheme: "pebble", usage: "pebble:DIR", open: openPebble},
		{scheme: "cassandra", usage: "cassandra://HOST[:PORT][,...]/KEYSPACE[?replication=N]", check: checkCassandra, open: openCassandra},
		{scheme: "hbase", usage: "hbase://QUORUM[/NAMESPACE]", check: checkHBase, open: openHBase},
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
	kind := storeKinds()[i]
	if kind.check != nil {
		if err := kind.check(rest); err != nil {
			return storeKind{}, "", usagef("store %q: %v; it is %s", name, err, kind.usage)
		}
	}
	return kind, rest, nil
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

// parseCassandra reads //HOST[:PORT][,...]/KEYSPACE[?replication=N].
func parseCassandra(name string) (cassandra.Config, error) {
	var c cassandra.Config
	u, err := url.Parse("cassandra:" + name)
	if err != nil {
		return c, errors.New("it is not a URL")
	}
	c.Keyspace = strings.TrimPrefix(u.Path, "/")
	if u.Host == "" || c.Keyspace == "" || u.User != nil || u.Fragment != "" {
		return c, errors.New("it needs hosts and a keyspace, and takes no credentials")
	}
	c.Hosts = strings.Split(u.Host, ",")
	for key, values := range u.Query() {
		n, err := strconv.Atoi(values[0])
		if key != "replication" || len(values) > 1 || err != nil || n < 1 {
			return c, fmt.Errorf("%q is no option", key)
		}
		c.Replication = map[string]string{"class": "SimpleStrategy", "replication_factor": values[0]}
	}
	return c, nil
}

func checkCassandra(name string) error {
	_, err := parseCassandra(name)
	return err
}

func openCassandra(ctx context.Context, name string, _ bool) (driver.DB, error) {
	config, err := parseCassandra(name)
	if err != nil {
		return nil, err
	}
	return cassandra.Open(ctx, config)
}

// parseHBase reads //QUORUM[/NAMESPACE].
func parseHBase(name string) (quorum, namespace string, err error) {
	rest, ok := strings.CutPrefix(name, "//")
	quorum, namespace, _ = strings.Cut(rest, "/")
	if !ok || quorum == "" || strings.ContainsAny(namespace, "/?#@") {
		return "", "", errors.New("it needs the addresses of a ZooKeeper quorum")
	}
	return quorum, namespace, nil
}

func checkHBase(name string) error {
	_, _, err := parseHBase(name)
	return err
}

func openHBase(ctx context.Context, name string, _ bool) (driver.DB, error) {
	quorum, namespace, err := parseHBase(name)
	if err != nil {
		return nil, err
	}
	return hbase.Open(ctx, quorum, &hbase.Options{Namespace: namespace})
}

// temporary is the name that reports give to a store that is removed in the end.
const temporary = "embedded store"
