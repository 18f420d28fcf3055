// Package table is the server's state: instances, groups and watchers in memory, records in the store.
package table

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"nstance/bench/baseline_go/internal/store"
)

var alphabet = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewID is a puidv7: three letters and a UUID of version 7.
func NewID(prefix string) string {
	raw := make([]byte, 16)
	rand.Read(raw)
	now := uint64(time.Now().UnixMilli())
	for i := range 6 {
		raw[i] = byte(now >> (40 - 8*i))
	}
	raw[6] = raw[6]&0x0f | 0x70
	raw[8] = raw[8]&0x3f | 0x80
	return prefix + alphabet.EncodeToString(raw)
}

// WriteID tells one write from another.
func WriteID() string {
	raw := make([]byte, 16)
	rand.Read(raw)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// Record is what is stored of an instance: the keys of the format that matter here.
type Record struct {
	InstanceID    string            `json:"instance_id"`
	Tenant        string            `json:"tenant"`
	Group         string            `json:"group"`
	OnDemand      bool              `json:"on_demand"`
	Status        string            `json:"status"`
	PrivateIPv4   string            `json:"private_ipv4"`
	PrivateIPv6   string            `json:"private_ipv6"`
	Hostname      string            `json:"hostname"`
	CreatedAt     time.Time         `json:"created_at"`
	LastUpdated   time.Time         `json:"last_updated"`
	Config        map[string]string `json:"config"`
	RegisteredAt  *time.Time        `json:"registered_at,omitempty"`
	PublicKeyPEM  string            `json:"public_key_pem,omitempty"`
	CertSerial    string            `json:"cert_serial,omitempty"`
	CertIssuedAt  *time.Time        `json:"cert_issued_at,omitempty"`
	CertExpiresAt *time.Time        `json:"cert_expires_at,omitempty"`
	Version       int               `json:"version"`
	Phase         string            `json:"phase"`
	NonceSHA256   string            `json:"nonce_sha256"`
	ConfigHash    string            `json:"config_hash"`
	WriteID       string            `json:"write_id"`
}

// Report is what is kept of the last health report.
type Report struct {
	At          time.Time
	ConfigHash  string
	Count       int64
	Terminating bool
}

// Instance is one row. Its mutex orders changes of the record; reports have their own.
type Instance struct {
	tenant string // Never changes.

	mutex  sync.Mutex
	record Record
	etag   string

	reportMutex sync.Mutex
	report      Report
}

// ErrGone: the instance is unknown, or on its way out.
var ErrGone = errors.New("no such instance")

// Table is safe for use by many goroutines.
type Table struct {
	Store store.Store
	Shard string

	mutex     sync.RWMutex
	instances map[string]*Instance

	Groups *Groups
	Events *Hub
}

// New is an empty table over a store.
func New(objects store.Store, shard string) *Table {
	hub := NewHub()
	return &Table{Store: objects, Shard: shard, instances: map[string]*Instance{}, Events: hub,
		Groups: &Groups{store: objects, key: "groups/" + shard + ".jsonc", hub: hub, byTenant: map[string]map[string]*Group{}}}
}

func (t *Table) key(record *Record) string {
	return fmt.Sprintf("instance/%s/%s.%s.json", t.Shard, record.Tenant, record.InstanceID)
}

// Find answers an instance of that tenant, or nil.
func (t *Table) Find(tenant, id string) *Instance {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	found := t.instances[id]
	if found == nil || found.tenant != tenant {
		return nil
	}
	return found
}

// Create writes a record, create-only, and adds it.
func (t *Table) Create(ctx context.Context, record Record) error {
	record.Version, record.WriteID, record.LastUpdated = 1, WriteID(), time.Now().UTC()
	content, err := json.Marshal(record)
	if err != nil {
		return err
	}
	etag, err := t.Store.Put(ctx, t.key(&record), content, store.Condition{CreateOnly: true})
	if err != nil {
		return err
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.instances[record.InstanceID] = &Instance{tenant: record.Tenant, record: record, etag: etag}
	return nil
}

// Load reads every record of the shard.
func (t *Table) Load(ctx context.Context) error {
	keys, err := t.Store.List(ctx, "instance/"+t.Shard+"/")
	if err != nil {
		return err
	}
	for _, key := range keys {
		content, etag, err := t.Store.Get(ctx, key)
		if err != nil {
			return err
		}
		var record Record
		if err := json.Unmarshal(content, &record); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		t.instances[record.InstanceID] = &Instance{tenant: record.Tenant, record: record, etag: etag}
	}
	return t.Groups.load(ctx)
}

// Snapshot is a copy of the record and of the last report.
func (i *Instance) Snapshot() (Record, Report) {
	i.mutex.Lock()
	record := i.record
	i.mutex.Unlock()
	i.reportMutex.Lock()
	defer i.reportMutex.Unlock()
	return record, i.report
}

// Change writes the record as `change` leaves it, by compare-and-swap; an error of `change` writes nothing. One
// change of an instance at a time.
func (t *Table) Change(ctx context.Context, instance *Instance, change func(*Record) error) (Record, error) {
	instance.mutex.Lock()
	defer instance.mutex.Unlock()
	next := instance.record
	if err := change(&next); err != nil {
		return instance.record, err
	}
	next.WriteID, next.LastUpdated = WriteID(), time.Now().UTC()
	content, err := json.Marshal(next)
	if err != nil {
		return instance.record, err
	}
	etag, err := t.Store.Put(ctx, t.key(&next), content, store.Condition{ETag: instance.etag})
	if err != nil {
		return instance.record, err
	}
	instance.record, instance.etag = next, etag
	return next, nil
}

// Heard keeps a report.
func (i *Instance) Heard(report Report) {
	i.reportMutex.Lock()
	defer i.reportMutex.Unlock()
	report.Terminating = report.Terminating || i.report.Terminating
	i.report = report
}

// Serving tells whether calls of this instance are accepted.
func (r *Record) Serving() bool {
	return r.Phase != "deleting" && r.Phase != "gone" && r.Phase != "failed"
}

type logEntry struct {
	BatchSize    int         `json:"batch_size"`
	Certificates []logSerial `json:"certificates"`
	InstanceID   string      `json:"instance_id"`
	IssuedAt     time.Time   `json:"issued_at"`
	Tenant       string      `json:"tenant"`
	WriteID      string      `json:"write_id"`
}

type logSerial struct {
	Name      string    `json:"certificate_name"`
	Serial    string    `json:"serial_number"`
	ExpiresAt time.Time `json:"expires_at"`
}

// LogCertificate writes the entry of the certificate log; it is durable before the certificate leaves.
func (t *Table) LogCertificate(ctx context.Context, tenant, id, role, serial string, issued, expires time.Time) error {
	content, err := json.Marshal(logEntry{BatchSize: 1, InstanceID: id, IssuedAt: issued, Tenant: tenant, WriteID: WriteID(),
		Certificates: []logSerial{{Name: role, Serial: serial, ExpiresAt: expires}}})
	if err != nil {
		return err
	}
	for at := issued; ; at = at.Add(time.Millisecond) {
		stamp := strings.Replace(at.UTC().Format("20060102150405.000"), ".", "", 1)
		_, err := t.Store.Put(ctx, fmt.Sprintf("certlog/%s/%s.%s.%s.json", t.Shard, tenant, stamp, id), content,
			store.Condition{CreateOnly: true})
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}
