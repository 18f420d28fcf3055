package table

import (
	"sync"

	"google.golang.org/protobuf/proto"
)

// queueLength of one watcher; a fuller one is ended.
const queueLength = 1000

// Watcher is one stream's queue. It is closed when the watcher was too slow.
type Watcher struct {
	Queue chan proto.Message
	kind  string
}

// Hub hands events to the watchers of a tenant.
type Hub struct {
	mutex    sync.Mutex
	byTenant map[string]map[*Watcher]bool
}

// NewHub has no watchers.
func NewHub() *Hub { return &Hub{byTenant: map[string]map[*Watcher]bool{}} }

// Watch adds a watcher of one kind of event.
func (h *Hub) Watch(tenant, kind string) *Watcher {
	watcher := &Watcher{Queue: make(chan proto.Message, queueLength), kind: kind}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.byTenant[tenant] == nil {
		h.byTenant[tenant] = map[*Watcher]bool{}
	}
	h.byTenant[tenant][watcher] = true
	return watcher
}

// Leave removes it; nothing comes afterwards.
func (h *Hub) Leave(tenant string, watcher *Watcher) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	delete(h.byTenant[tenant], watcher)
}

// Send never waits: a watcher that is full is ended, and connects again for a new snapshot.
func (h *Hub) Send(tenant, kind string, event proto.Message) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for watcher := range h.byTenant[tenant] {
		if watcher.kind != kind {
			continue
		}
		select {
		case watcher.Queue <- event:
		default:
			delete(h.byTenant[tenant], watcher)
			close(watcher.Queue)
		}
	}
}
