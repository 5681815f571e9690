// Package cassandraurl reads the names of Cassandra clusters, as --store takes them, and the files with passwords and
// certificates that they name. It knows nothing of the adapter, so that the adapter's own tests read them, too.
package cassandraurl

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// A Name is what a URL says. What an option does not say is left at its zero value.
type Name struct {
	Hosts    []string
	Keyspace string

	User, PasswordFile string
	PlaintextPassword  bool // the password may go over a connection without TLS

	SystemAuthorities         bool // TLS, with the authorities of this machine
	CA, Cert, Key, ServerName string

	Datacentre  string
	Consistency gocql.Consistency
	Timeout     time.Duration

	SpeculateAfter time.Duration     // 0 is never
	MaxClockSkew   time.Duration     // 0 is the default
	Replication    map[string]string // the map of CREATE KEYSPACE
}

// An option is one after the question mark.
type option struct {
	name, takes, help string
	set               func(n *Name, value string) error
}

const plaintextOption = "insecure-plaintext-password"

func options() []option {
	text := func(field func(*Name) *string) func(*Name, string) error {
		return func(n *Name, value string) error { *field(n) = value; return nil }
	}
	return []option{
		{"user", "ROLE", "who logs in; needs TLS", setUser},
		{"password-file", "FILE", "else by\n    " + PasswordVariable + ", else asked for",
			text(func(n *Name) *string { return &n.PasswordFile })},
		{"ca", "FILE", "TLS, with your own authority (PEM)", text(func(n *Name) *string { return &n.CA })},
		{"tls", "system", "TLS, with those of this machine", setTLS},
		{"cert", "FILE", "of the client (PEM)", text(func(n *Name) *string { return &n.Cert })},
		{"key", "FILE", "its private key (PEM, mode 600)", text(func(n *Name) *string { return &n.Key })},
		{"server-name", "NAME", "in the servers' certificates", text(func(n *Name) *string { return &n.ServerName })},
		{"dc", "NAME", "the data centre of all clients", text(func(n *Name) *string { return &n.Datacentre })},
		{"consistency", "LEVEL", "quorum, each_quorum, all;\n    with dc: local_quorum, each_quorum, all", setConsistency},
		{"serial-consistency", "LEVEL", "serial; with dc: local_serial", nil},
		{"timeout", "DURATION", "of a statement, as 20s", duration("timeout", func(n *Name) *time.Duration { return &n.Timeout })},
		{"speculate-after", "DURATION", "ask a second node, as 200ms",
			duration("speculate-after", func(n *Name) *time.Duration { return &n.SpeculateAfter })},
		{"clock-skew", "DURATION", "from a node's, as 10s",
			duration("clock-skew", func(n *Name) *time.Duration { return &n.MaxClockSkew })},
		{"replication", "N|DC:N,...", "of a new keyspace", setReplication},
		{plaintextOption, "yes", "without TLS:\n    whoever reads the network gets it", setPlaintext},
	}
}

// Usage is how names look.
const Usage = "cassandra://HOST[:PORT][,...]/KEYSPACE[?OPTION=VALUE&...]"

// Help lists the options, one a line.
func Help() string {
	var lines []string
	for _, o := range options() {
		lines = append(lines, fmt.Sprintf("  %s=%s: %s", o.name, o.takes, o.help))
	}
	return strings.Join(lines, "\n")
}

var keyspaceName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`)

// Parse reads a name, with or without "cassandra:" before it. It opens no file. No error holds what may be a password.
func Parse(name string) (*Name, error) {
	n, err := parse(name, "a keyspace")
	if err == nil && !keyspaceName.MatchString(n.Keyspace) {
		return nil, fmt.Errorf("keyspace %q: need 1 to 48 characters of a-z, 0-9 and '_', beginning with a letter", n.Keyspace)
	}
	return n, err
}

// TableUsage is how the names of tables look.
const TableUsage = "cassandra://HOST[:PORT][,...]/KEYSPACE.TABLE[?OPTION=VALUE&...]"

// tableName matches what Cassandra takes as the names of keyspaces and tables, here with a full stop or a slash between them.
var tableName = regexp.MustCompile(`^(\w+)[./](\w+)$`)

// ParseTable reads the name of a table that an application keeps, in any keyspace. Capital letters are such letters, without quotes.
func ParseTable(name string) (n *Name, table string, err error) {
	if n, err = parse(name, "a keyspace and a table"); err != nil {
		return nil, "", err
	}
	words := tableName.FindStringSubmatch(n.Keyspace)
	if words == nil {
		return nil, "", fmt.Errorf("%q is not KEYSPACE.TABLE, as in shop.orders; names have letters, digits and '_', and no quotes", n.Keyspace)
	}
	n.Keyspace = words[1]
	return n, words[2], nil
}

// parse reads a name whose path is not checked.
func parse(name, path string) (*Name, error) {
	name = strings.TrimPrefix(name, "cassandra:")
	place, query, _ := strings.Cut(name, "?")
	if login(name) {
		return nil, errors.New("it has credentials before the hosts, where other users of this machine see them in the list of processes: " +
			"change that password, and give user=ROLE and password-file=FILE as options")
	}
	if strings.Contains(name, "#") {
		return nil, errors.New("it has a '#', which begins what is no part of a name; write %23 for one in a value")
	}
	if strings.ContainsAny(place, optionSigns) {
		return nil, errors.New("it has a '&', a ';' or a '=' before the options, which begin with a '?'; what follows there is not shown, since it may be a password")
	}
	hosts, keyspace, _ := strings.Cut(strings.TrimPrefix(place, "//"), "/")
	if !strings.HasPrefix(place, "//") || hosts == "" || keyspace == "" {
		return nil, errors.New("it needs hosts and " + path)
	}
	n := &Name{Keyspace: keyspace, Hosts: strings.Split(hosts, ",")}
	if err := CheckHosts(n.Hosts); err != nil {
		return nil, err
	}
	given, err := parseOptions(query)
	if err != nil {
		return nil, err
	}
	for _, o := range options() {
		if value, ok := given[o.name]; ok && o.set != nil {
			if err := o.set(n, value); err != nil {
				return nil, err
			}
		}
	}
	return n, n.check(given["serial-consistency"])
}

// login reports whether a name has credentials before its hosts. Where the password has a '?' or a '#', the '@' comes after that.
func login(name string) bool {
	i := strings.IndexAny(name, "?#")
	if i < 0 || strings.Contains(name[:i], "@") || name[i] == '#' {
		return strings.Contains(name, "@")
	}
	cut := !strings.Contains(strings.TrimPrefix(name[:i], "//"), "/") // before the keyspace
	return slices.ContainsFunc(pairs(name[i+1:]), func(pair string) bool {
		option, value, _ := strings.Cut(pair, "=")
		return strings.Contains(option, "@") || cut && strings.Contains(value, "@") && !isOption(option)
	})
}

// pairs returns what may be options.
func pairs(query string) []string {
	return strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' })
}

// isOption reports whether there is an option of a name.
func isOption(name string) bool {
	return slices.ContainsFunc(options(), func(o option) bool { return o.name == name })
}

// optionSigns are of options, and in no name of a host, keyspace or table.
const optionSigns = "&;="

// hostName matches names and addresses, without a doubt about where they end.
var hostName = regexp.MustCompile(`^[\pL\pN._:%\[\]-]+$`)

// CheckHosts returns an error unless all are HOST or HOST:PORT.
func CheckHosts(hosts []string) error {
	for _, h := range hosts {
		host, port := h, "1"
		if strings.Contains(strings.TrimPrefix(h, "["), ":") {
			var err error
			if host, port, err = net.SplitHostPort(h); err != nil {
				return fmt.Errorf("%q is not HOST or HOST:PORT", shownHosts(h))
			}
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if !hostName.MatchString(host) || err != nil || n == 0 {
			return fmt.Errorf("%q is not HOST or HOST:PORT", shownHosts(h))
		}
	}
	return nil
}

// passwordLike matches the names of options that somebody may take for that of the password.
var passwordLike = regexp.MustCompile(`(?i)^(p|pw|pwd|pass|passwd|password|secret|credentials?)$`)

// parseOptions returns the values of options by their names. A plus is a plus, not a blank: values are paths.
func parseOptions(query string) (map[string]string, error) {
	given := make(map[string]string)
	if query == "" {
		return given, nil
	}
	known := make([]string, 0, len(options()))
	for _, o := range options() {
		known = append(known, o.name)
	}
	for pair := range strings.SplitSeq(query, "&") {
		name, escaped, _ := strings.Cut(pair, "=")
		value, err := url.PathUnescape(escaped)
		switch {
		case passwordLike.MatchString(name), distance(strings.ToLower(name), "password") <= 2:
			return nil, fmt.Errorf("%q is no option: other users of this machine see it in the list of processes, and the shell remembers it. "+
				"Change that password, and give the new one in a file, password-file=FILE, or in the variable %s, or where it is asked for", name, PasswordVariable)
		case !slices.Contains(known, name):
			return nil, unknown(name, known)
		case strings.Contains(escaped, ";"):
			return nil, fmt.Errorf("%s has a ';' in its value: options are separated by '&'; write %%3B for one in a value", name)
		case escaped == "":
			return nil, fmt.Errorf("%s is empty", name)
		case err != nil:
			return nil, fmt.Errorf("%s has a '%%' that two hexadecimal digits must follow; write %%25 for the sign itself", name)
		}
		if _, twice := given[name]; twice {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		given[name] = value
	}
	return given, nil
}

// unknown is the error of an option that does not exist, with the one that was meant, perhaps.
func unknown(name string, known []string) error {
	if !regexp.MustCompile(`^[A-Za-z_-]{1,30}$`).MatchString(name) {
		return errors.New("after the question mark are options as NAME=VALUE, with '&' between them; one has another form, and is not shown")
	}
	best, least := "", 3
	plain := strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	for _, k := range known {
		if d := distance(plain, k); d < least && d < len(k) {
			best, least = k, d
		}
	}
	meant := map[string]string{"datacenter": "dc", "datacentre": "dc", "username": "user", "role": "user", "ssl": "tls", "cafile": "ca", "local-dc": "dc"}
	if m, ok := meant[plain]; ok {
		best = m
	}
	if best != "" {
		return fmt.Errorf("%q is no option; did you mean %s?", name, best)
	}
	return fmt.Errorf("%q is no option; there are %s", name, strings.Join(known, ", "))
}

// distance is how many letters have to be changed, added or removed to make one word the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0]++
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

func setUser(n *Name, value string) error {
	if strings.Contains(value, ":") {
		return errors.New("user takes the name of a role; what is given has a colon, and is not shown, since a password may follow it")
	}
	n.User = value
	return nil
}

func setTLS(n *Name, value string) error {
	if value != "system" {
		return errors.New("tls takes one value, system, for the authorities of this machine; an authority of your own is ca=FILE")
	}
	n.SystemAuthorities = true
	return nil
}

func setPlaintext(n *Name, value string) error {
	if value != "yes" {
		return fmt.Errorf("%s takes one value, yes: whoever reads the network then gets the password", plaintextOption)
	}
	n.PlaintextPassword = true
	return nil
}

func duration(name string, field func(*Name) *time.Duration) func(*Name, string) error {
	return func(n *Name, value string) error {
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return fmt.Errorf("%s %q is no duration above zero: write 20s, 500ms or 1m30s", name, value)
		}
		*field(n) = d
		return nil
	}
}

// levels are those under which a client reads what others were told that they wrote.
var levels = map[string]gocql.Consistency{
	"quorum": gocql.Quorum, "each_quorum": gocql.EachQuorum, "all": gocql.All, "local_quorum": gocql.LocalQuorum,
}

func level(value string) string { return strings.ReplaceAll(strings.ToLower(value), "-", "_") }

func setConsistency(n *Name, value string) error {
	c, ok := levels[level(value)]
	switch _, err := gocql.ParseConsistencyWrapper(strings.ToUpper(level(value))); {
	case ok:
		n.Consistency = c
	case err == nil:
		return fmt.Errorf("consistency %s would not read what other clients have written: take quorum, each_quorum, all, or local_quorum with dc=NAME", level(value))
	default:
		return fmt.Errorf("consistency %q is none: there are quorum, each_quorum, all, and local_quorum with dc=NAME", value)
	}
	return nil
}

var dataCentre = regexp.MustCompile(`^[^\s,:'"&=]+$`)

func setReplication(n *Name, value string) error {
	usage := errors.New("replication takes a number from 1 on, or a number for each data centre, as dc1:3,dc2:2")
	count := func(text string) bool {
		i, err := strconv.Atoi(text)
		return err == nil && i >= 1 && text == strconv.Itoa(i)
	}
	if count(value) {
		n.Replication = map[string]string{"class": "SimpleStrategy", "replication_factor": value}
		return nil
	}
	n.Replication = map[string]string{"class": "NetworkTopologyStrategy"}
	for part := range strings.SplitSeq(value, ",") {
		dc, copies, _ := strings.Cut(part, ":")
		switch _, twice := n.Replication[dc]; {
		case !dataCentre.MatchString(dc), !count(copies), dc == "class", dc == "replication_factor":
			return usage
		case twice:
			return fmt.Errorf("replication names the data centre %s twice", dc)
		}
		n.Replication[dc] = copies
	}
	return nil
}

// check returns what is wrong with options that do not go together.
func (n *Name) check(serial string) error {
	tls := n.CA != "" || n.SystemAuthorities
	local := level(serial) == "local_serial"
	switch {
	case n.User == "" && n.PasswordFile != "":
		return errors.New("password-file without user: add user=ROLE")
	case n.User == "" && n.PlaintextPassword:
		return fmt.Errorf("%s without user: there is no password to send", plaintextOption)
	case n.CA != "" && n.SystemAuthorities:
		return errors.New("ca and tls=system: take one of them")
	case n.Cert != "" && n.Key == "":
		return errors.New("cert without key: add key=FILE, the private key of the certificate")
	case n.Key != "" && n.Cert == "":
		return errors.New("key without cert: add cert=FILE, the certificate of the key")
	case (n.Cert != "" || n.ServerName != "") && !tls:
		return errors.New("cert, key and server-name are for TLS: add ca=FILE or tls=system, which say whom to trust")
	case n.User != "" && !tls && !n.PlaintextPassword:
		return fmt.Errorf("the password would be sent without TLS: add ca=FILE or tls=system, or %s=yes where nobody else can read the network", plaintextOption)
	case n.PlaintextPassword && tls:
		return fmt.Errorf("%s with TLS: remove it, so that the password never goes without", plaintextOption)
	case serial != "" && !local && level(serial) != "serial":
		return fmt.Errorf("serial-consistency %q is none: there are serial, and local_serial with dc=NAME", serial)
	case local && n.Datacentre == "":
		return errors.New("serial-consistency local_serial needs dc=NAME: clients of two data centres would not see each other's changes")
	case serial != "" && !local && n.Datacentre != "":
		return errors.New("serial-consistency serial and dc: all clients of one data centre use local_serial; remove one of the two options")
	case n.Consistency == gocql.LocalQuorum && n.Datacentre == "":
		return errors.New("consistency local_quorum needs dc=NAME: clients of two data centres would not see each other's writes")
	case n.Consistency == gocql.Quorum && n.Datacentre != "":
		return errors.New("consistency quorum and dc: such a write may miss the quorum of that data centre, where others read; take local_quorum, each_quorum or all")
	}
	if _, ok := n.Replication[n.Datacentre]; n.Datacentre != "" && n.Replication["class"] == "NetworkTopologyStrategy" && !ok {
		return fmt.Errorf("replication keeps no copies in %s, which dc names; there are %s", n.Datacentre, strings.Join(n.centres(), ", "))
	}
	return nil
}

// centres returns the data centres that replication names.
func (n *Name) centres() []string {
	names := slices.Sorted(maps.Keys(n.Replication))
	return slices.DeleteFunc(names, func(s string) bool { return s == "class" })
}

// noPort matches what stands where a port may, before a path or another host, and is no number: perhaps the password of a
// ROLE:PASSWORD without an '@'.
var noPort = regexp.MustCompile(`:[^:/,\]]*[^0-9:/,\]][^:/,\]]*(/|,|$)`)

// shownHosts returns hosts, and what may follow them, for a message.
func shownHosts(place string) string { return noPort.ReplaceAllString(place, ":...$1") }

// Shown returns a name of the form SCHEME:PLACE?OPTIONS for a message: without credentials before the hosts, ports that are no numbers, what
// follows a '#', options that do not follow a '?', and the values of those that do not exist.
func Shown(name string) string {
	scheme, rest, _ := strings.Cut(name, ":")
	rest, _, fragment := strings.Cut(rest, "#")
	place, query, asked := strings.Cut(rest, "?")
	if i := strings.LastIndex(place, "@"); i >= 0 {
		place = "//..." + place[i:]
	} else if login(strings.TrimPrefix(name, scheme+":")) {
		return scheme + "://..."
	}
	if i := strings.IndexAny(place, optionSigns); i >= 0 {
		place = place[:i+1] + "..."
	}
	slashes := strings.TrimSuffix(place, strings.TrimLeft(place, "/"))
	shown := scheme + ":" + slashes + shownHosts(place[len(slashes):])
	if asked {
		shown += "?"
	}
	for i, pair := range pairs(query) {
		if i > 0 {
			shown += "&"
		}
		key, value, _ := strings.Cut(pair, "=")
		known := isOption(key)
		if !known && !regexp.MustCompile(`^[A-Za-z_-]{1,30}$`).MatchString(key) {
			key = "..."
		}
		if !known || key == "user" && strings.Contains(value, ":") {
			value = "..."
		}
		shown += key + "=" + value
	}
	if fragment {
		shown += "#..."
	}
	return shown
}
