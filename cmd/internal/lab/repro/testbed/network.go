package testbed

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/internal/proxy"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A Condition is how a network is.
type Condition struct {
	Latency time.Duration // of the way there and back
	Mbps    int           // megabits a second, in each direction; 0 is no bound
	Loss    float64       // share of the packets
}

func (c Condition) weather() proxy.Weather {
	return proxy.Weather{Delay: c.Latency / 2, Bandwidth: c.Mbps * 1e6 / 8, Loss: c.Loss}
}

// A Network is what clients reach the database by: of a database on servers, a proxy that delays
// what is sent; of an embedded one, pauses before and after each call, by the same rules.
type Network struct {
	cfg   experiment.Config
	proxy *proxy.Proxy
	near  driver.DB // that pauses

	weather  atomic.Pointer[proxy.Weather]
	up, down *proxy.Line
}

// NewNetwork returns a network that has no delay, to the configured database.
func NewNetwork(cfg experiment.Config) *Network {
	n := &Network{cfg: cfg, up: proxy.NewLine(cfg.Seed, proxy.ToServer), down: proxy.NewLine(cfg.Seed, proxy.ToClient)}
	n.Set(Condition{})
	if cfg.Database.Far != nil {
		n.proxy = proxy.New(nil)
		n.proxy.Seed(cfg.Seed)
		return n
	}
	// A database that is far away has no snapshots.
	n.near = intercept.New(struct{ driver.DB }{cfg.Database.DB}, n.call, nil)
	return n
}

// Notes has what must be known of the network to read what is measured over it.
func Notes(cfg experiment.Config) []string {
	if cfg.Database.Far != nil {
		return nil
	}
	return []string{"The store is embedded: what a network does is a pause before and after each call."}
}

// Latency sets how long a round trip takes longer, on a network that has all else.
func (n *Network) Latency(d time.Duration) { n.Set(Condition{Latency: d}) }

// Set sets how the network is from now on.
func (n *Network) Set(c Condition) {
	w := c.weather()
	n.weather.Store(&w)
	if n.proxy != nil {
		n.proxy.Set(w)
	}
}

// Of a call of an embedded database: what a request takes besides what is put, and after how many rows a scan asks for more.
const (
	requestBytes = 100
	pageRows     = 1000
)

// call makes a call as if the database were far away.
func (n *Network) call(ctx context.Context, _ intercept.Op, c intercept.Call) error {
	w := *n.weather.Load()
	if w == (proxy.Weather{}) {
		return c.Make(nil)
	}
	arrive := func(line *proxy.Line, bytes int) error {
		return pause.For(ctx, time.Until(line.Leave(w, time.Now(), bytes).Add(w.Delay)))
	}
	sent := requestBytes
	if c.Size != nil {
		_, bytes := c.Size()
		sent += bytes
	}
	if err := arrive(n.up, sent); err != nil {
		return err
	}
	arrived := 0 // bytes of a scan
	err := c.Make(func(rows int) error {
		if rows <= pageRows || rows%pageRows != 1 {
			return nil // the page that it is on is there
		}
		page := c.Got() - arrived
		arrived += page
		if err := arrive(n.down, page); err != nil {
			return err
		}
		return arrive(n.up, requestBytes)
	})
	if err != nil {
		return err
	}
	answer := requestBytes
	if c.Got != nil {
		answer += c.Got() - arrived
	}
	return arrive(n.down, answer)
}

// Connect returns a connection of a client's own.
func (n *Network) Connect(ctx context.Context) (driver.DB, error) {
	if n.proxy != nil {
		return n.cfg.Database.Far(ctx, n.proxy.Dial)
	}
	return n.near, nil
}

// Disconnect ends a connection of [Network.Connect].
func (n *Network) Disconnect(db driver.DB) error {
	if n.proxy != nil {
		return db.Close()
	}
	return nil
}

// Close ends the network.
func (n *Network) Close() {
	if n.proxy != nil {
		n.proxy.Close()
	}
}

// A Distant is a workspace, and a connection to it through a network whose requests are counted.
type Distant struct {
	Net   *Network
	Space *Workspace
	DB    driver.DB
	Count *Counter
}

// NewDistant makes a workspace and a connection to it.
func NewDistant(ctx context.Context, cfg experiment.Config) (d Distant, err error) {
	d = Distant{Net: NewNetwork(cfg), Count: new(Counter)}
	if d.Space, err = NewWorkspace(ctx, cfg); err != nil {
		d.Net.Close()
		return d, err
	}
	if d.DB, err = d.Net.Connect(ctx); err != nil {
		d.Net.Close()
	}
	return d, err
}

// Close ends the connection and drops the workspace.
func (d Distant) Close(ctx context.Context) error {
	d.Net.Latency(0)
	err := d.Net.Disconnect(d.DB)
	d.Net.Close()
	return errors.Join(err, d.Space.Drop(ctx))
}

// CountLatency is long enough for requests that are sent together to be seen under way together.
const CountLatency = 20 * time.Millisecond
