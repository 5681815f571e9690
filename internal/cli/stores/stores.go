// Package stores opens the databases that the flag --store names.
package stores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/cassandraurl"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/wording"
	"github.com/rangecrypt/rangecrypt/store/cassandra"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/hbase"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

// A kind is a kind of database that --store can name.
type kind struct {
	scheme string // before the colon
	usage  string
	help   string                                                                                 // what follows it in the help of --store; may be ""
	check  func(name string) error                                                                // of what follows the colon; may be nil
	open   Opener                                                                                 // nil for one with servers
	far    func(ctx context.Context, name string, ask Ask, dial Dial, how How) (driver.DB, error) // nil for one without servers
}

// An Opener opens a database.
type Opener func(ctx context.Context, name string, how How) (driver.DB, error)

// How says what a database is opened for.
type How struct {
	Create bool // it is made where it does not exist; otherwise that is an error
	Pass   bool // what is read is read once: an embedded database keeps little of it in memory

	// Compact has an embedded database write its files anew first, without what was replaced or deleted.
	Compact bool
}

// An Ask asks for a password on the terminal. It is nil where nobody can be asked.
type Ask = cassandraurl.Ask

// A Dial makes the connections to the servers of a database.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// kinds lists them; names are validated against it and opened from it.
func kinds() []kind {
	return []kind{
		{scheme: "pebble", usage: "pebble:DIR", check: checkPebble, open: openPebble},
		{scheme: "cassandra", usage: cassandraurl.Usage, help: cassandraurl.Help(), check: checkCassandra, far: openCassandra},
		{scheme: "hbase", usage: "hbase://QUORUM[/NAMESPACE]", check: checkHBase, far: openHBase},
	}
}

// Prefixes returns how the names of the databases of each kind begin.
func Prefixes() []string {
	var prefixes []string
	for _, k := range kinds() {
		if k.far != nil {
			k.scheme += "://"
		} else {
			k.scheme += ":"
		}
		prefixes = append(prefixes, k.scheme)
	}
	return prefixes
}

// Usages returns how the databases of each kind are named.
func Usages() []string {
	var usages []string
	for _, k := range kinds() {
		usages = append(usages, k.usage)
	}
	return usages
}

// Help returns the same with the options that each takes, one a line.
func Help() string {
	var lines []string
	for _, k := range kinds() {
		lines = append(lines, k.usage)
		if k.help != "" {
			lines = append(lines, k.help)
		}
	}
	return strings.Join(lines, "\n")
}

// Check returns an error unless the name is of a known kind.
func Check(name string) error {
	_, _, err := split(name)
	return err
}

// Split divides a name into the kind of the database and what follows the colon.
func Split(name string) (scheme, rest string, err error) {
	k, rest, err := split(name)
	return k.scheme, rest, err
}

func split(name string) (kind, string, error) {
	scheme, rest, _ := strings.Cut(name, ":")
	i := slices.IndexFunc(kinds(), func(k kind) bool { return k.scheme == scheme })
	if i < 0 || rest == "" {
		return kind{}, "", exit.Usagef("unknown store %q: there is %s", Shown(name), strings.Join(Usages(), ", "))
	}
	if keyOnly.MatchString(rest) {
		return kind{}, "", exit.Usagef("--store %s: takes a name, and this looks like a key, which is not shown; a folder with such a name is given with ./ before it", scheme)
	}
	k := kinds()[i]
	if k.check != nil {
		if err := k.check(rest); err != nil {
			return kind{}, "", exit.Usagef("store %q: %v; it is %s", Shown(name), err, k.usage)
		}
	}
	return k, rest, nil
}

// keyOnly matches the text of a key file, and what is longer.
var keyOnly = regexp.MustCompile(`^[0-9a-fA-F]{64,}$`)

// Shown returns the name of a store for a message, without a password that somebody put there.
func Shown(name string) string {
	scheme, rest, _ := strings.Cut(name, ":")
	switch login := strings.Contains(rest, "@"); {
	case scheme == "cassandra", scheme == "hbase":
		return cassandraurl.Shown(name)
	case login && strings.HasPrefix(rest, "//"):
		return scheme + "://..."
	case login && scheme != "pebble": // as a URL without its beginning
		return scheme + ":..."
	}
	return name
}

// A File is one that is read to open a database.
type File struct{ Option, Name string }

// Files returns the files that the name of a database names, and the folder that it keeps its own files in: "" for one with
// servers. Of what is no name there are none.
func Files(name string) (read []File, folder string) {
	k, rest, err := split(name)
	switch {
	case err != nil:
		return nil, ""
	case k.far == nil:
		return nil, rest
	case k.scheme != "cassandra":
		return nil, ""
	}
	n, err := cassandraurl.Parse(rest)
	if err != nil {
		return nil, ""
	}
	for _, f := range []File{{"password-file", n.PasswordFile}, {"ca", n.CA}, {"cert", n.Cert}, {"key", n.Key}} {
		if f.Name != "" {
			read = append(read, f)
		}
	}
	return read, ""
}

// Open opens the database that --store names. Nobody is asked for a password.
func Open(ctx context.Context, name string, how How) (driver.DB, error) {
	return Asking(nil, func(string) {})(ctx, name, how)
}

// Asking returns an Opener that asks for passwords that neither a file nor the environment gives. It says once if a server
// does not answer for some seconds: clients go on to try for up to a minute.
func Asking(ask Ask, say func(text string)) Opener {
	return func(ctx context.Context, name string, how How) (driver.DB, error) {
		k, rest, err := split(name)
		switch {
		case err != nil:
			return nil, err
		case k.far != nil:
			ask, stop := waiting("--store", name, ask, say)
			defer stop()
			db, err := k.far(ctx, rest, ask, nil, how)
			if err == nil {
				db, err = used(ctx, db, how.Create)
			}
			if errors.Is(err, errNoStore) {
				return nil, noStore(Shown(name))
			}
			return db, running(ctx, "--store", k.scheme, rest, err)
		}
		return k.open(ctx, rest, how)
	}
}

// errNoStore says that nothing of ours is under a name.
var errNoStore = errors.New("no store")

func noStore(in string) error {
	return unreached{fmt.Sprintf("there is no store in %s; 'opebench insert' and 'rangecrypt table create' make one", in), fs.ErrNotExist}
}

// used returns a database that has something of ours, or is to get it, or closes it. Whoever has mistyped its name must not
// believe that all is gone. One that is to get it is asked, too, since HBase lets clients in that has no master to make tables.
func used(ctx context.Context, db driver.DB, create bool) (driver.DB, error) {
	names, err := db.Families(ctx)
	if err == nil && len(names) == 0 && !create {
		err = errNoStore
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// patience is how long a server may take to answer before that is said. Most take less than a second; a cluster that is
// busy may take more.
const patience = 3 * time.Second

// waiting says that what a flag names does not answer, unless it is stopped before. Somebody who types a password is waited for.
func waiting(flag, name string, ask Ask, say func(string)) (_ Ask, stop func() bool) {
	var once sync.Once
	timer := time.AfterFunc(patience, func() {
		once.Do(func() {
			say(fmt.Sprintf("%s does not answer yet; this goes on to try it. Is the database running, and does %s name its host and port?", Shown(name), flag))
		})
	})
	if ask == nil {
		return nil, timer.Stop
	}
	return func(ctx context.Context, prompt string) ([]byte, error) {
		timer.Stop()
		defer timer.Reset(patience)
		return ask(ctx, prompt)
	}, timer.Stop
}

// Far returns what opens a database with connections that dial makes; nil for one without servers.
func Far(name string, ask Ask) (func(ctx context.Context, dial Dial) (driver.DB, error), error) {
	k, rest, err := split(name)
	if err != nil || k.far == nil {
		return nil, err
	}
	return func(ctx context.Context, dial Dial) (driver.DB, error) {
		return k.far(ctx, rest, ask, dial, How{Create: true})
	}, nil
}

func openPebble(ctx context.Context, dir string, how How) (driver.DB, error) {
	o := &pebble.Options{MustExist: !how.Create}
	if how.Pass {
		o.CacheBytes = passBytes
	}
	db, err := pebble.Open(dir, o)
	if err == nil && how.Compact {
		err = errors.Join(db.Compact(ctx), db.Close())
		if err == nil {
			db, err = pebble.Open(dir, o) // which removes the logs
		}
	}
	if err == nil {
		return db, nil
	}
	if !how.Create && errors.Is(err, fs.ErrNotExist) && !errors.Is(err, driver.ErrCorrupt) {
		return nil, noStore(dir)
	}
	return nil, err
}

// passBytes is the cache of a database that is read once from its beginning to its end. A larger one would fill up
// with what nobody reads again, and the process would grow with the table.
const passBytes = 16 << 20

var namespaceName = regexp.MustCompile(`^[A-Za-z0-9_]{1,60}$`)

// checkPebble refuses what would be a URL with a login: a folder is not named so, and what is there may be a password. It refuses a ~, too,
// which shells leave as it is behind the colon.
func checkPebble(name string) error {
	if strings.HasPrefix(name, "~") {
		return errors.New("a shell does not replace the ~ behind the colon: write the folder out, or ./ before one that is named so")
	}
	folder, server := strings.CutPrefix(name, "//")
	switch {
	case !server:
		return nil
	case strings.Contains(folder, "@"):
		return errors.New("it has a login before a host, which is not shown, and an embedded store has neither: name its folder")
	case strings.HasPrefix(folder, "/"):
		return nil
	}
	return fmt.Errorf("it begins as the name of a server, and would be the folder /%s: write pebble:%[1]s, or pebble:/%[1]s", folder)
}

func checkCassandra(name string) error {
	_, err := cassandraurl.Parse(name)
	return err
}

// Cassandra returns how to connect to the cluster of a name, as [Split] returns it: it reads the files that the name
// names, and asks for a password that nothing else gives.
func Cassandra(ctx context.Context, name string, ask Ask) (cassandra.Config, error) {
	n, err := cassandraurl.Parse(name)
	if err != nil {
		return cassandra.Config{}, err
	}
	c := cassandra.Config{Hosts: n.Hosts, Username: n.User, AllowPlaintextPassword: n.PlaintextPassword, Timeout: n.Timeout}
	c.Keyspace, c.Replication, c.Datacentre, c.Consistency = n.Keyspace, n.Replication, n.Datacentre, n.Consistency
	c.SpeculateAfter, c.MaxClockSkew = n.SpeculateAfter, n.MaxClockSkew
	c.Password, c.TLS, err = n.Access(ctx, ask)
	if errors.Is(err, cassandraurl.ErrNoPassword) {
		err = exit.Usagef("%v", err)
	}
	return c, err
}

func openCassandra(ctx context.Context, name string, ask Ask, dial Dial, how How) (driver.DB, error) {
	config, err := Cassandra(ctx, name, ask)
	if err != nil {
		return nil, err
	}
	config.Dial, config.MustExist = dial, !how.Create
	config.Logger = slog.New(warnings{os.Stderr, filepath.Base(os.Args[0])})
	db, err := cassandra.Open(ctx, config)
	switch {
	case !how.Create && errors.Is(err, fs.ErrNotExist):
		return nil, errNoStore
	case err != nil:
		return nil, err
	}
	return db, nil
}

// warnings is a handler that prints the warnings of a store's adapter. What the database's client
// library reports is left out: it comes back as an error where it matters.
type warnings struct {
	w       io.Writer
	program string
}

func (h warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (h warnings) WithAttrs([]slog.Attr) slog.Handler               { return h }
func (h warnings) WithGroup(string) slog.Handler                    { return h }

func (h warnings) Handle(_ context.Context, r slog.Record) error {
	own := true
	r.Attrs(func(a slog.Attr) bool {
		own = own && a.Key != "from"
		return own
	})
	if !own {
		return nil
	}
	_, err := fmt.Fprintf(h.w, "%s: warning: %s\n", h.program, wording.ForPeople(r.Message))
	return err
}

// ParseHBase reads //QUORUM[/NAMESPACE].
func ParseHBase(name string) (quorum, namespace string, err error) {
	rest, ok := strings.CutPrefix(name, "//")
	quorum, namespace, _ = strings.Cut(rest, "/")
	if !ok || quorum == "" {
		return "", "", errors.New("it needs the addresses of a ZooKeeper quorum")
	}
	if strings.ContainsAny(name, "?#@") { // whoever asks for a login must not believe that there is one
		return "", "", errors.New("it takes no options and no credentials: the client library gohbase knows neither TLS nor Kerberos")
	}
	if namespace == "hbase" || namespace != "" && !namespaceName.MatchString(namespace) {
		return "", "", fmt.Errorf("namespace %q: need 1 to 60 characters of a-z, A-Z, 0-9 and '_', and not \"hbase\"", namespace)
	}
	if err := cassandraurl.CheckHosts(strings.Split(quorum, ",")); err != nil {
		return "", "", err
	}
	return quorum, namespace, nil
}

func checkHBase(name string) error {
	_, _, err := ParseHBase(name)
	return err
}

func openHBase(ctx context.Context, name string, _ Ask, dial Dial, _ How) (driver.DB, error) {
	quorum, namespace, err := ParseHBase(name)
	if err != nil {
		return nil, err
	}
	return hbase.Open(ctx, quorum, &hbase.Options{Namespace: namespace, Dial: dial})
}
