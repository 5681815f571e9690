package cassandraurl

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for name, want := range map[string]Name{
		"cassandra://h/ks":                {},
		"//h/ks?replication=3":            {Replication: map[string]string{"class": "SimpleStrategy", "replication_factor": "3"}},
		"//h/ks?replication=dc1:3,dc2:2":  {Replication: map[string]string{"class": "NetworkTopologyStrategy", "dc1": "3", "dc2": "2"}},
		"//h/ks?dc=dc1&replication=dc1:3": {Datacentre: "dc1", Replication: map[string]string{"class": "NetworkTopologyStrategy", "dc1": "3"}},
		"//h/ks?user=app&password-file=/run/a+b%20c/p%26&ca=ca.pem&cert=c.pem&key=k.pem&server-name=db": {
			User: "app", PasswordFile: "/run/a+b c/p&", CA: "ca.pem", Cert: "c.pem", Key: "k.pem", ServerName: "db",
		},
		"//h/ks?tls=system&timeout=1m30s":                                      {SystemAuthorities: true, Timeout: 90 * time.Second},
		"//h/ks?speculate-after=150ms":                                         {SpeculateAfter: 150 * time.Millisecond},
		"//h/ks?clock-skew=1m":                                                 {MaxClockSkew: time.Minute},
		"//h/ks?user=app&insecure-plaintext-password=yes":                      {User: "app", PlaintextPassword: true},
		"//h/ks?consistency=quorum&serial-consistency=serial":                  {Consistency: gocql.Quorum},
		"//h/ks?consistency=EACH_QUORUM":                                       {Consistency: gocql.EachQuorum},
		"//h/ks?consistency=all&dc=a":                                          {Consistency: gocql.All, Datacentre: "a"},
		"//h/ks?consistency=local-quorum&serial-consistency=LOCAL_SERIAL&dc=a": {Consistency: gocql.LocalQuorum, Datacentre: "a"},
	} {
		want.Hosts, want.Keyspace = []string{"h"}, "ks"
		got, err := Parse(name)
		require.NoError(t, err, name)
		require.Equal(t, &want, got, name)
	}
	n, err := Parse("cassandra://[::1]:9042,db2,127.0.0.1:9043/ks")
	require.NoError(t, err)
	require.Equal(t, []string{"[::1]:9042", "db2", "127.0.0.1:9043"}, n.Hosts)
	for _, hosts := range []string{"h i", "h:0", "h:port", "h,,i", ":9042", "h:70000", "h?", "h;i", "h\x00"} {
		_, err := Parse("cassandra://" + hosts + "/ks")
		require.Error(t, err, hosts)
	}
	for _, name := range []string{"cassandra:", "cassandra://", "cassandra://h", "cassandra://h/", "cassandra:///ks", "cassandra:h/ks", "cassandra://h/a/b", "cassandra://h/Ks"} {
		_, err := Parse(name)
		require.Error(t, err, name)
	}
}

// Each names the option and says what to do. What may be a password is in no error, and not shown.
func TestParseRefuses(t *testing.T) {
	const tls = "&ca=ca.pem"
	for query, says := range map[string]string{
		"password-file=f":                                "password-file without user: add user=ROLE",
		"insecure-plaintext-password=yes":                "without user",
		"user=app":                                       "the password would be sent without TLS: add ca=FILE or tls=system, or insecure-plaintext-password=yes",
		"user=app&insecure-plaintext-password=no":        "takes one value, yes",
		"user=app&insecure-plaintext-password=yes" + tls: "with TLS: remove it",
		"cert=c" + tls:                                   "cert without key: add key=FILE",
		"key=k" + tls:                                    "key without cert: add cert=FILE",
		"cert=c&key=k":                                   "are for TLS: add ca=FILE or tls=system",
		"server-name=db":                                 "are for TLS: add ca=FILE or tls=system",
		"tls=system" + tls:                               "ca and tls=system: take one of them",
		"tls=yes":                                        "tls takes one value, system",
		"user=app&user=app" + tls:                        "user is given twice",
		"user=" + tls:                                    "user is empty",
		"user" + tls:                                     "user is empty",
		"ca=%zz":                                         "write %25 for the sign itself",
		"ca=a;b":                                         "write %3B",
		"consistency=one":                                "consistency one would not read what other clients have written: take quorum",
		"consistency=local_one&dc=a":                     "would not read what other clients have written",
		"consistency=serial":                             "take quorum, each_quorum, all",
		"consistency=strong":                             `consistency "strong" is none: there are quorum, each_quorum, all`,
		"consistency=local_quorum":                       "consistency local_quorum needs dc=NAME",
		"consistency=quorum&dc=a":                        "take local_quorum, each_quorum or all",
		"serial-consistency=local_serial":                "serial-consistency local_serial needs dc=NAME",
		"serial-consistency=serial&dc=a":                 "remove one of the two options",
		"serial-consistency=quorum":                      "there are serial, and local_serial with dc=NAME",
		"timeout=20":                                     `timeout "20" is no duration above zero: write 20s`,
		"timeout=-1s":                                    "is no duration above zero",
		"timeout=soon":                                   "is no duration above zero",
		"speculate-after=0s":                             `speculate-after "0s" is no duration above zero`,
		"replication=0":                                  "replication takes a number from 1 on",
		"replication=03":                                 "replication takes a number from 1 on",
		"replication=three":                              "replication takes a number from 1 on",
		"replication=dc1:3,dc2":                          "as dc1:3,dc2:2",
		"replication=dc1:3,":                             "as dc1:3,dc2:2",
		"replication=dc1:0":                              "as dc1:3,dc2:2",
		"replication=class:3":                            "as dc1:3,dc2:2",
		"replication=d'c:3":                              "as dc1:3,dc2:2",
		"replication=dc1:3,dc1:2":                        "names the data centre dc1 twice",
		"replication=dc1:3,dc3:1&dc=dc2":                 "replication keeps no copies in dc2, which dc names; there are dc1, dc3",
		"pasword-file=f":                                 "did you mean password-file?",
		"usr=app":                                        "did you mean user?",
		"consistancy=quorum":                             "did you mean consistency?",
		"password_file=f":                                "did you mean password-file?",
		"datacenter=a":                                   "did you mean dc?",
		"username=app":                                   "did you mean user?",
		"colour=red":                                     "there are user, password-file, ca, tls, cert,",
	} {
		name := "cassandra://h/ks?" + query
		_, err := Parse(name)
		require.ErrorContains(t, err, says, name)
	}
	for _, name := range []string{
		"cassandra://app:hunter2@h/ks", "cassandra://hunter2@h/ks", "cassandra://app:hunter2@h/ks?user=app", "cassandra:app:hunter2@h/ks",
		"cassandra://h/ks?password=hunter2", "cassandra://h/ks?user=app&Password=hunter2", "cassandra://h/ks?pwd=hunter2", "cassandra://h/ks?passwrd=hunter2",
		"cassandra://h/ks?user=app:hunter2", "cassandra://h/ks?hunter2", "cassandra://h/ks?user=app#hunter2", "cassandra://h/ks?user=app;password=hunter2",
		"cassandra://h/ks?hunter2&user=app", "cassandra:h/ks?password=hunter2", "cassandra://h/ks?user=app&password=%zzhunter2",
		"cassandra://app:hun/ter2@h/ks", "cassandra://app:hun?hunter2@h/ks",
		"cassandra://app:hunter2?x@h/ks", "cassandra://app:hunter2#x@h/ks", "cassandra://app:hunter2?x=y@h/ks", "cassandra://app:hunter2?x&y@h/ks?user=app", "cassandra:app:hunter2?x@h/ks",
		"cassandra://h/ks&user=app&password=hunter2", "cassandra://h/ks;password=hunter2?user=app", "cassandra://h&password=hunter2", "cassandra://h/ks/password=hunter2",
		"cassandra://app:hunter2/ks", "cassandra://app:a:hunter2/ks", "cassandra:app:hunter2", "cassandra://h:1,app:hunter2,i/ks",
	} {
		_, err := Parse(name)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "ter2", name)
		require.NotContains(t, Shown(name), "ter2", name)
	}
}

func TestShown(t *testing.T) {
	for _, name := range []string{
		"cassandra://h:1,i/ks", "cassandra://h/ks?user=app&password-file=/a/b", "cassandra://h/ks?user=me@home&ca=/a@b", "hbase://h:2181/ns", "cassandra:",
		"cassandra://[2001:db8::1]:9042,[fe80::a]/ks",
	} {
		require.Equal(t, name, Shown(name))
	}
	require.Equal(t, "cassandra://...@h/ks?user=app&pass=...", Shown("cassandra://a:b@h/ks?user=app&pass=c"))
}

// Each option is in the help.
func TestHelp(t *testing.T) {
	help := "\n" + Help()
	for _, o := range options() {
		require.Contains(t, help, "\n  "+o.name+"="+o.takes+": ")
	}
}

// Each option has a row in docs/operations.md.
func TestOptionsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	require.NoError(t, err)
	for _, o := range options() {
		require.Regexp(t, "(?m)^\\| (`[a-z]+=FILE`, )?`"+o.name+"="+o.takes[:1], string(page))
	}
	require.Contains(t, string(page), PasswordVariable)
}

func TestParseTable(t *testing.T) {
	for _, name := range []string{"//db1,db2:9142/Shop.Order_2?dc=east", "cassandra://db1,db2:9142/Shop/Order_2?dc=east"} {
		n, table, err := ParseTable(name)
		require.NoError(t, err)
		require.Equal(t, "Shop", n.Keyspace)
		require.Equal(t, "Order_2", table)
		require.Equal(t, []string{"db1", "db2:9142"}, n.Hosts)
		require.Equal(t, "east", n.Datacentre)
	}
	for name, says := range map[string]string{
		"//db1":                "it needs hosts and a keyspace and a table",
		"//db1/shop":           `"shop" is not KEYSPACE.TABLE, as in shop.orders`,
		"//db1/shop.a.b":       "is not KEYSPACE.TABLE",
		`//db1/shop."a"`:       "no quotes",
		"//app@db1/shop.a":     "credentials before the hosts",
		"//db1/shop.a?passw=x": "is no option",
	} {
		_, _, err := ParseTable(name)
		require.ErrorContains(t, err, says)
	}
}
