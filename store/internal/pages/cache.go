package pages

import (
	"bytes"
	"container/list"
	"sync"

	"github.com/rangecrypt/rangecrypt/internal/seal"
)

// A cache keeps what was in sealed mini-pages, up to a number of bytes, and forgets what was not asked for longest. A page
// that was changed since has other cells, so that its old content is never taken for the new one.
type cache struct {
	most int

	mu    sync.Mutex
	bytes int
	order *list.List // of *kept, the latest in front
	pages map[string]*list.Element
}

// A kept page is what was opened, and the cells that it was in.
type kept struct {
	key           string
	plain, sealed []byte
	body          []byte
	header        seal.Header
}

func (k *kept) size() int { return len(k.key) + len(k.plain) + len(k.sealed) + len(k.body) + 200 }

func newCache(bytes int) *cache {
	return &cache{most: bytes, order: list.New(), pages: make(map[string]*list.Element)}
}

// get returns the page if its cells are the ones that were opened.
func (c *cache) get(p *page, sealed []byte) *kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.pages[string(p.key)]
	if e == nil {
		return nil
	}
	k := e.Value.(*kept)
	if !bytes.Equal(k.sealed, sealed) || !bytes.Equal(k.plain, p.plain) {
		return nil
	}
	c.order.MoveToFront(e)
	return k
}

func (c *cache) put(p *page, sealed, body []byte, h seal.Header) {
	k := &kept{key: string(p.key), plain: p.plain, sealed: sealed, body: body, header: h}
	if k.size() > c.most {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.pages[k.key]; e != nil {
		c.remove(e)
	}
	c.pages[k.key] = c.order.PushFront(k)
	for c.bytes += k.size(); c.bytes > c.most; {
		c.remove(c.order.Back())
	}
}

func (c *cache) remove(e *list.Element) {
	k := c.order.Remove(e).(*kept)
	delete(c.pages, k.key)
	c.bytes -= k.size()
}
