// Package hooks has what the adapter for Cassandra gives to gocql, which calls it: a policy, connections and a logger.
package hooks

import (
	"sync"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// Wary is a policy that asks nodes last which did not answer in time, but for one statement in a while that finds out
// whether they do again. A node that hangs costs a wait each time that it is asked first.
type Wary struct {
	gocql.HostSelectionPolicy
	After time.Duration // that is in time
	nodes sync.Map      // from the id of a host to its *hanging
}

// How long a node that did not answer in time is asked last.
const avoided = 500 * time.Millisecond

// hanging is until when a node is avoided, in nanoseconds since 1970; 0 if it answers.
type hanging struct{ until atomic.Int64 }

func (h *hanging) avoid(now time.Time) bool {
	until := h.until.Load()
	return until > now.UnixNano() || until > 0 && !h.until.CompareAndSwap(until, now.Add(avoided).UnixNano())
}

// Pick implements [gocql.HostSelectionPolicy].
func (w *Wary) Pick(statement gocql.ExecutableStatement) gocql.NextHost {
	next := w.HostSelectionPolicy.Pick(statement)
	var last []gocql.SelectedHost
	all := false
	return func() gocql.SelectedHost {
		for !all {
			node := next()
			if all = node == nil || node.Info() == nil; all {
				break
			}
			known, _ := w.nodes.LoadOrStore(node.Info().HostID(), new(hanging))
			asked := &askedNode{SelectedHost: node, hanging: known.(*hanging), after: w.After, began: time.Now()}
			if !asked.hanging.avoid(asked.began) {
				return asked
			}
			last = append(last, asked)
		}
		if len(last) == 0 {
			return nil
		}
		node := last[0]
		last = last[1:]
		return node
	}
}

// AddHosts is what gocql calls, if a policy has it, in place of AddHost for each of many.
func (w *Wary) AddHosts(hosts []*gocql.HostInfo) {
	if together, ok := w.HostSelectionPolicy.(interface{ AddHosts([]*gocql.HostInfo) }); ok {
		together.AddHosts(hosts)
		return
	}
	for _, host := range hosts {
		w.AddHost(host)
	}
}

// An askedNode notes whether the node answers in time.
type askedNode struct {
	gocql.SelectedHost
	hanging *hanging
	after   time.Duration
	began   time.Time
}

// Mark implements [gocql.SelectedHost]. It is called with the answer, and where the answer of another node came first.
func (n *askedNode) Mark(err error) {
	if now := time.Now(); now.Sub(n.began) >= n.after {
		n.hanging.until.Store(now.Add(avoided).UnixNano())
	} else {
		n.hanging.until.Store(0)
	}
	n.SelectedHost.Mark(err)
}
