package table

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"

	"nstance/bench/baseline_go/internal/store"
)

// Group is one dynamic group, as stored.
type Group struct {
	Template     string            `json:"template,omitempty"`
	Size         int32             `json:"size,omitempty"`
	InstanceType string            `json:"instance_type,omitempty"`
	SubnetPool   string            `json:"subnet_pool,omitempty"`
	Vars         map[string]string `json:"vars,omitempty"`
}

// Groups is the groups object: one object per shard, rewritten whole by one compare-and-swap per request.
type Groups struct {
	store store.Store
	key   string
	hub   *Hub

	mutex    sync.Mutex // Held over the write: requests queue here.
	etag     string
	byTenant map[string]map[string]*Group
}

func (g *Groups) load(ctx context.Context) error {
	content, etag, err := g.store.Get(ctx, g.key)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	g.etag = etag
	return json.Unmarshal(content, &g.byTenant)
}

// Upsert overlays non-empty fields; the size always counts.
func (g *Groups) Upsert(ctx context.Context, tenant, key string, change Group) (Group, error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	next := Group{Template: change.Template, Vars: map[string]string{}}
	if old := g.byTenant[tenant][key]; old != nil {
		next = *old
		next.Vars = maps.Clone(old.Vars)
		if next.Vars == nil {
			next.Vars = map[string]string{}
		}
	}
	overlay(&next.Template, change.Template)
	overlay(&next.InstanceType, change.InstanceType)
	overlay(&next.SubnetPool, change.SubnetPool)
	maps.Copy(next.Vars, change.Vars)
	next.Size = change.Size
	if next.Template == "" {
		return next, errors.New("config.template: required for a new group")
	}
	return next, g.write(ctx, tenant, key, &next)
}

// Delete removes a group; an unknown one is no error.
func (g *Groups) Delete(ctx context.Context, tenant, key string) (bool, error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.byTenant[tenant][key] == nil {
		return false, nil
	}
	return true, g.write(ctx, tenant, key, nil)
}

func overlay(field *string, value string) {
	if value != "" {
		*field = value
	}
}

// write stores all groups with one changed (nil: removed), then takes it over. The mutex is held.
func (g *Groups) write(ctx context.Context, tenant, key string, group *Group) error {
	next := maps.Clone(g.byTenant)
	groups := maps.Clone(next[tenant])
	if groups == nil {
		groups = map[string]*Group{}
	}
	if group != nil {
		groups[key] = group
	} else {
		delete(groups, key)
	}
	next[tenant] = groups
	content, err := json.MarshalIndent(next, "", "  ")
	if err != nil {
		return err
	}
	etag, err := g.store.Put(ctx, g.key, content, store.Condition{CreateOnly: g.etag == "", ETag: g.etag})
	if err != nil {
		return err
	}
	g.etag, g.byTenant = etag, next
	return nil
}

// Named is a group with its key.
type Named struct {
	Key string
	Group
}

// List answers the groups of a tenant, sorted by key.
func (g *Groups) List(tenant string) []Named {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	var all []Named
	for _, key := range slices.Sorted(maps.Keys(g.byTenant[tenant])) {
		all = append(all, Named{Key: key, Group: *g.byTenant[tenant][key]})
	}
	return all
}

// Exists tells whether a tenant has that group.
func (g *Groups) Exists(tenant, key string) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.byTenant[tenant][key] != nil
}

// ETag of a group: MD5 of its compact JSON, keys in a fixed order.
func (n *Named) ETag(tenant string) string {
	text, _ := json.Marshal(struct {
		InstanceType string            `json:"instance_type"`
		IsStatic     bool              `json:"is_static"`
		Key          string            `json:"key"`
		Size         int32             `json:"size"`
		SubnetPool   string            `json:"subnet_pool"`
		Template     string            `json:"template"`
		Tenant       string            `json:"tenant"`
		Vars         map[string]string `json:"vars"`
	}{n.InstanceType, false, n.Key, n.Size, n.SubnetPool, n.Template, tenant, n.Vars})
	sum := md5.Sum(text)
	return hex.EncodeToString(sum[:])
}
