package servers

import (
	"bytes"
	_ "embed"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed files/cassandra.yaml
var cassandraYAML string

//go:embed files/cassandra-logback.xml
var cassandraLogback []byte

// The nodes of three divide the ring of the Murmur3 partitioner, -2^63 to 2^63-1, evenly.
var cassandraTokens = []string{"-9223372036854775808", "-3074457345618258603", "3074457345618258602"}

var cassandraTemplate = template.Must(template.New("cassandra.yaml").Parse(cassandraYAML))

type cassandraConfig struct {
	base                          string
	Host, Seeds, Token, Release   string
	Port, StoragePort, MemtableMB int
	KillSafe, Secure, ForTests    bool
}

// Dir returns the path of a folder of the node as YAML: JSON strings are YAML too.
func (c cassandraConfig) Dir(name string) string {
	return fmt.Sprintf("%q", filepath.Join(c.base, name))
}

// Secret returns the path of a file that all nodes of a secured cluster share.
func (c cassandraConfig) Secret(name string) string {
	return fmt.Sprintf("%q", filepath.Join(filepath.Dir(c.base), secretDir, name))
}

func (s spec) planCassandra(dir string) []plan {
	host := func(i int) string { return fmt.Sprintf("127.0.0.%d", i+1) }
	plans := make([]plan, s.Nodes)
	for i := range plans {
		base := filepath.Join(dir, fmt.Sprintf("cassandra%d", i+1))
		var yaml bytes.Buffer
		err := cassandraTemplate.Execute(&yaml, cassandraConfig{
			base: base, Host: host(i), Seeds: hostPort(host(0), s.PeerPort), Token: cassandraTokens[i], Release: s.Release,
			Port: s.Port, StoragePort: s.PeerPort, MemtableMB: s.HeapMB / 6, KillSafe: s.KillSafe, Secure: s.Secure, ForTests: s.forTests(),
		})
		if err != nil {
			panic("servers: " + err.Error()) // a fault of the template
		}
		conf, logback := filepath.Join(base, "cassandra.yaml"), filepath.Join(base, "logback.xml")
		storage := hostPort(host(i), s.PeerPort)
		args := addExports(
			"java.base/jdk.internal.misc", "java.base/jdk.internal.ref", "java.base/java.lang.ref",
			"java.base/sun.nio.ch", "java.management.rmi/com.sun.jmx.remote.internal.rmi",
			"java.rmi/sun.rmi.registry", "java.rmi/sun.rmi.server", "java.sql/java.sql",
			"jdk.unsupported/sun.misc")
		args = append(args, addOpens(
			"java.base/java.io", "java.base/java.lang", "java.base/java.lang.module",
			"java.base/java.lang.reflect", "java.base/java.net", "java.base/java.nio",
			"java.base/java.util", "java.base/java.util.concurrent",
			"java.base/java.util.concurrent.atomic", "java.base/jdk.internal.loader",
			"java.base/jdk.internal.math", "java.base/jdk.internal.module",
			"java.base/jdk.internal.ref", "java.base/jdk.internal.reflect",
			"java.base/jdk.internal.util.jar", "java.base/sun.nio.ch",
			"jdk.management/com.sun.management.internal")...)
		args = append(args,
			fmt.Sprintf("-Xmx%dm", s.HeapMB),
			fmt.Sprintf("-XX:MaxDirectMemorySize=%dm", s.HeapMB),
			"-Xss512k",
			"-Djdk.attach.allowAttachSelf=true",
			"-Dio.netty.tryReflectionSetAccessible=true",
			"-Dlogback.configurationFile="+logback,
			"-Dcassandra.config="+(&url.URL{Scheme: "file", Path: conf}).String(),
			"-Dcassandra.storagedir="+base,
			"-Dcassandra-foreground=yes",
			// The waits that let news spread through a large cluster: half a minute for a ring of three.
			"-Dcassandra.skip_wait_for_gossip_to_settle=0",
			"-Dcassandra.ring_delay_ms=1000",
			"-Dcassandra.shutdown_announce_in_ms=100",
			"-Dcassandra.consistent.rangemovement=false",
			// A section of the commit log begins with its end and the checksum of that, written one after the other.
			// Without this, a node that is killed between the two never starts again. Each write in the section has
			// a checksum of its own (CASSANDRA-16842).
			"-Dcassandra.commitlog.allow_ignore_sync_crc=true",
		)
		if s.KillSafe || s.forTests() {
			args = append(args, "-Dcassandra.skip_sync=true")
		}
		if s.forTests() {
			// Each change of the schema would write its tables to disk at once. What is not there when a node is killed is lost.
			args = append(args, "-Dcassandra.test.flush_local_schema_changes=false")
		}
		if s.Secure {
			args = append(args,
				"-Dcassandra.superuser_setup_delay_ms=0",
				// Passwords are 128 random bits: a slow hash protects them no better, and slows each connection down.
				"-Dcassandra.auth_bcrypt_gensalt_log2_rounds=4",
				fmt.Sprintf("-Dcassandra.system_auth.default_rf=%d", s.Nodes))
		}
		plans[i] = plan{
			name:   fmt.Sprintf("cassandra%d", i+1),
			dir:    base,
			listen: []string{hostPort(host(i), s.Port), storage},
			files:  map[string][]byte{conf: yaml.Bytes(), logback: cassandraLogback},
			args:   args,
			class:  []string{"org.apache.cassandra.service.CassandraDaemon"},
			ready:  "Startup complete",
			// Until then the others would count the node as dead and refuse what needs it.
			announces: func(other plan) string { return "/" + storage + " is now UP" },
		}
	}
	return plans
}

// agentJar returns the jar of the list that Cassandra measures its objects with.
func agentJar(jars []string) string {
	for _, jar := range jars {
		if strings.HasPrefix(filepath.Base(jar), "jamm-") {
			return jar
		}
	}
	return ""
}
