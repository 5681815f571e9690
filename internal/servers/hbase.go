package servers

import (
	"bytes"
	_ "embed"
	"fmt"
	"path/filepath"
	"strconv"
	"text/template"
)

//go:embed files/hbase-site.xml
var hbaseSite string

//go:embed files/hbase-log4j.properties
var hbaseLog4j []byte

var hbaseTemplate = template.Must(template.New("hbase-site.xml").
	Funcs(template.FuncMap{"xml": template.HTMLEscapeString}).Parse(hbaseSite))

type hbaseConfig struct {
	base                         string
	Distributed                  bool
	Port, MasterPort, RegionPort int
	RegionServers                int
}

func (c hbaseConfig) Dir(name string) string { return filepath.Join(c.base, name) }

const (
	hbaseMaster       = "org.apache.hadoop.hbase.master.HMaster"
	hbaseRegionServer = "org.apache.hadoop.hbase.regionserver.HRegionServer"
	hbaseZooKeeper    = "org.apache.hadoop.hbase.zookeeper.HQuorumPeer"
)

func (s spec) planHBase(dir string) []plan {
	const host = "127.0.0.1"
	regionPort := func(i int) int { return s.PeerPort + 20 + i }
	master := hostPort(host, s.PeerPort)

	node := func(name, class string, regionPort, heapMB int, ready string, listen ...string) plan {
		var site bytes.Buffer
		err := hbaseTemplate.Execute(&site, hbaseConfig{
			base: dir, Distributed: s.Nodes > 1, Port: s.Port, MasterPort: s.PeerPort,
			RegionPort: regionPort, RegionServers: max(1, s.Nodes-1),
		})
		if err != nil {
			panic("servers: " + err.Error()) // a fault of the template
		}
		base := filepath.Join(dir, name)
		conf := filepath.Join(base, "conf")
		args := addOpens("java.base/java.io", "java.base/java.lang", "java.base/java.lang.reflect",
			"java.base/java.net", "java.base/java.nio", "java.base/java.util",
			"java.base/java.util.concurrent", "java.base/sun.nio.ch")
		args = append(args, addExports("java.base/jdk.internal.misc",
			"java.security.jgss/sun.security.krb5")...)
		args = append(args,
			"--add-modules=jdk.unsupported",
			fmt.Sprintf("-Xmx%dm", heapMB),
			"-XX:MaxDirectMemorySize=128m",
			"-Dorg.apache.hbase.thirdparty.io.netty.tryReflectionSetAccessible=true",
		)
		return plan{
			name: name, dir: base, listen: listen, args: args, conf: conf,
			files: map[string][]byte{
				filepath.Join(conf, "hbase-site.xml"):   site.Bytes(),
				filepath.Join(conf, "log4j.properties"): hbaseLog4j,
			},
			class:     []string{class, "start"},
			ready:     ready,
			announces: func(plan) string { return "" },
		}
	}

	const initialized = "Master has completed initialization" // so hbase:meta is assigned
	if s.Nodes == 1 {
		return []plan{node("hbase", hbaseMaster, regionPort(0), s.HeapMB, initialized,
			hostPort(host, s.Port), master, hostPort(host, regionPort(0)))}
	}
	plans := []plan{
		node("zookeeper", hbaseZooKeeper, regionPort(0), 128, "binding to port", hostPort(host, s.Port)),
		node("master", hbaseMaster, regionPort(0), s.HeapMB, initialized, master),
	}
	for i := range s.Nodes - 1 {
		port := strconv.Itoa(regionPort(i))
		rs := node(fmt.Sprintf("regionserver%d", i+1), hbaseRegionServer, regionPort(i), s.HeapMB,
			"Serving as localhost,"+port, hostPort(host, regionPort(i)))
		// Until then the master gives it no regions.
		rs.announces = func(other plan) string {
			if other.name != "master" {
				return ""
			}
			return "Registering regionserver=localhost," + port + ","
		}
		plans = append(plans, rs)
	}
	return plans
}
