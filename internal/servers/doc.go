// Package servers starts real Cassandra and HBase servers on the loopback interface, for tests,
// for benchmarks and for the command "opebench servers". It needs a JDK (11 or 17) and Maven,
// which fetches the servers once; containers are not needed.
//
// [Start] is for tests: the servers die with the process that started them. [Up], [Down] and
// [Inspect] are for a command line: the servers of Up go on when the process ends, and another
// process finds them by the state file in their data folder.
//
// One node is one Java process: Cassandra, or HBase with its master, its region server and its
// ZooKeeper together. Three nodes are three Cassandras at 127.0.0.1 to 127.0.0.3, which can hold
// three replicas; or an HBase master and two region servers with a ZooKeeper beside them, four
// processes, of which any may be killed and restarted.
//
// A server is ready when its own process has written to its log, since this start, that it
// serves, and its port accepts connections. Neither is enough alone: a process that has just been
// killed may accept connections for a while, and a log keeps the lines of earlier starts.
//
// The servers are for trying and measuring. They listen on loopback, ask for no password and do
// not call fsync for each write: what they acknowledged does not survive a power failure. Whether
// it survives SIGKILL is a choice for Cassandra, [Options.KillSafe].
package servers
