package repro

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/internal/proxy"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A condition is how a network is.
type condition struct {
	latency time.Duration // of the way there and back
	mbps    int           // megabits a second, in each direction; 0 is no bound
	loss    float64       // share of the packets
}

func (c condition) weather() proxy.Weather {
	return proxy.Weather{Delay: c.latency / 2, Bandwidth: c.mbps * 1e6 / 8, Loss: c.loss}
}

// A network is what clients reach the database by: of a database on servers, a proxy that delays
// what is sent; of an embedded one, pauses before and after each call, by the same rules.
type network struct {
	cfg   Config
	proxy *proxy.Proxy
	near  driver.DB // that pauses

	weather  atomic.Pointer[proxy.Weather]
	up, down *proxy.Line
}

func newNetwork(cfg Config) *network {
	n := &network{cfg: cfg, up: proxy.NewLine(cfg.Seed, proxy.ToServer), down: proxy.NewLine(cfg.Seed, proxy.ToClient)}
	n.set(condition{})
	if cfg.Database.Far != nil {
		n.proxy = proxy.New(nil)
		n.proxy.Seed(cfg.Seed)
		return n
	}
	// A database that is far away has no snapshots.
	n.near = intercept.New(struct{ driver.DB }{cfg.Database.DB}, n.call, nil)
	return n
}

// latency sets how long a round trip takes longer, on a network that has all else.
func (n *network) latency(d time.Duration) { n.set(condition{latency: d}) }

func (n *network) set(c condition) {
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
func (n *network) call(ctx context.Context, _ intercept.Op, c intercept.Call) error {
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

// connect returns a connection of a client's own.
func (n *network) connect(ctx context.Context) (driver.DB, error) {
	if n.proxy != nil {
		return n.cfg.Database.Far(ctx, n.proxy.Dial)
	}
	return n.near, nil
}

func (n *network) disconnect(db driver.DB) error {
	if n.proxy != nil {
		return db.Close()
	}
	return nil
}

func (n *network) close() {
	if n.proxy != nil {
		n.proxy.Close()
	}
}

// A distant is a workspace, and a connection to it through a network whose requests are counted.
type distant struct {
	net   *network
	space *workspace
	db    driver.DB
	count *counter
}

func newDistant(ctx context.Context, cfg Config) (d distant, err error) {
	d = distant{net: newNetwork(cfg), count: new(counter)}
	if d.space, err = newWorkspace(ctx, cfg); err != nil {
		d.net.close()
		return d, err
	}
	if d.db, err = d.net.connect(ctx); err != nil {
		d.net.close()
	}
	return d, err
}

func (d distant) close(ctx context.Context) error {
	d.net.latency(0)
	err := d.net.disconnect(d.db)
	d.net.close()
	return errors.Join(err, d.space.drop(ctx))
}
