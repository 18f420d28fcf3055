package table

import (
	"database/sql"
	"encoding/json"
	"log"
	"sync"
	"time"

	_ "modernc.org/sqlite" // The driver, without C.
)

// HealthRow is what the cache keeps of a report.
type HealthRow struct {
	InstanceID  string
	At          time.Time
	Report      any // Written as JSON.
	ConfigHash  string
	Terminating bool
}

// Cache writes health behind, in batches: of several reports of one instance only the newest is written.
type Cache struct {
	database *sql.DB
	mutex    sync.Mutex
	dirty    map[string]HealthRow
	wake     chan struct{}
	done     chan struct{}
	Batches  int64
}

// OpenCache makes the database anew where it does not fit.
func OpenCache(path string) (*Cache, error) {
	database, err := sql.Open("sqlite", "file:"+path+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=foreign_keys(ON)&_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, err
	}
	database.SetMaxOpenConns(1)
	_, err = database.Exec(`CREATE TABLE IF NOT EXISTS health (instance_id TEXT PRIMARY KEY, health_at INTEGER,
		report TEXT, config_hash TEXT, terminating_at INTEGER) WITHOUT ROWID`)
	if err != nil {
		return nil, err
	}
	cache := &Cache{database: database, dirty: map[string]HealthRow{}, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go cache.run()
	return cache, nil
}

// Put never waits for the disk.
func (c *Cache) Put(row HealthRow) {
	if c == nil {
		return
	}
	c.mutex.Lock()
	c.dirty[row.InstanceID] = row
	c.mutex.Unlock()
}

// Close writes what is left.
func (c *Cache) Close() {
	if c == nil {
		return
	}
	close(c.wake)
	<-c.done
	c.database.Close()
}

func (c *Cache) run() {
	defer close(c.done)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for open := true; open; {
		select {
		case <-ticker.C:
		case _, open = <-c.wake:
		}
		c.mutex.Lock()
		batch := c.dirty
		c.dirty = make(map[string]HealthRow, len(batch))
		c.mutex.Unlock()
		if err := c.write(batch); err != nil {
			log.Printf("cache: %v", err)
		}
	}
}

func (c *Cache) write(batch map[string]HealthRow) error {
	if len(batch) == 0 {
		return nil
	}
	transaction, err := c.database.Begin()
	if err != nil {
		return err
	}
	defer transaction.Rollback()
	statement, err := transaction.Prepare(`INSERT INTO health VALUES (?, ?, ?, ?, ?) ON CONFLICT (instance_id) DO UPDATE SET
		health_at = excluded.health_at, report = excluded.report, config_hash = excluded.config_hash,
		terminating_at = COALESCE(health.terminating_at, excluded.terminating_at)`)
	if err != nil {
		return err
	}
	defer statement.Close()
	for _, row := range batch {
		var terminating *int64
		if row.Terminating {
			at := row.At.UnixMicro()
			terminating = &at
		}
		report, err := json.Marshal(row.Report)
		if err != nil {
			return err
		}
		if _, err := statement.Exec(row.InstanceID, row.At.UnixMicro(), string(report), row.ConfigHash, terminating); err != nil {
			return err
		}
	}
	c.Batches++
	return transaction.Commit()
}
