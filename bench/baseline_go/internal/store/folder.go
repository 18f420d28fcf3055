package store

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Folder keeps objects as files: written to a temporary file, synced, renamed, the folder synced. Conditions
// hold within this process only; it has one.
type Folder struct {
	root  string
	locks [64]sync.Mutex
}

// OpenFolder makes the folder if it is missing.
func OpenFolder(root string) (*Folder, error) {
	return &Folder{root: root}, os.MkdirAll(root, 0o755)
}

func etagOf(content []byte) string {
	sum := md5.Sum(content)
	return hex.EncodeToString(sum[:])
}

func (f *Folder) lock(key string) *sync.Mutex {
	hash := fnv.New32a()
	hash.Write([]byte(key))
	return &f.locks[hash.Sum32()%uint32(len(f.locks))]
}

// Get reads an object.
func (f *Folder) Get(_ context.Context, key string) ([]byte, string, error) {
	content, err := os.ReadFile(filepath.Join(f.root, key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", ErrNotFound
	}
	if err != nil {
		return nil, "", err
	}
	return content, etagOf(content), nil
}

// Put writes an object under its condition.
func (f *Folder) Put(ctx context.Context, key string, content []byte, condition Condition) (string, error) {
	lock := f.lock(key)
	lock.Lock()
	defer lock.Unlock()
	if condition.CreateOnly || condition.ETag != "" {
		_, etag, err := f.Get(ctx, key)
		switch {
		case err != nil && !errors.Is(err, ErrNotFound):
			return "", err
		case condition.CreateOnly && err == nil:
			return "", ErrConflict
		case condition.ETag != "" && etag != condition.ETag:
			return "", ErrConflict
		}
	}
	path := filepath.Join(f.root, key)
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	if err := replace(folder, path, content); err != nil {
		return "", err
	}
	return etagOf(content), syncFolder(folder)
}

func replace(folder, path string, content []byte) error {
	file, err := os.CreateTemp(folder, ".nstance-put-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if _, err := file.Write(content); err != nil {
		file.Close()
		return err
	}
	if err := file.Sync(); err != nil {
		file.Close()
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

func syncFolder(folder string) error {
	opened, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer opened.Close()
	return opened.Sync()
}

// List walks the folder.
func (f *Folder) List(_ context.Context, prefix string) ([]string, error) {
	var keys []string
	err := filepath.WalkDir(f.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(entry.Name(), ".nstance-") {
			return err
		}
		key, err := filepath.Rel(f.root, path)
		if err == nil && strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
		return err
	})
	slices.Sort(keys)
	return keys, err
}
