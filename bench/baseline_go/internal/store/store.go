// Package store is an object store with conditional writes: a folder, or an HTTP store that honours
// If-Match and If-None-Match as S3 does.
package store

import (
	"context"
	"errors"
)

// ErrConflict: the condition of a write did not hold.
var ErrConflict = errors.New("the precondition failed")

// ErrNotFound: there is no such object.
var ErrNotFound = errors.New("no such object")

// Condition of a Put. The zero value is unconditional.
type Condition struct {
	CreateOnly bool
	ETag       string
}

// Store is safe for use by many goroutines.
type Store interface {
	Get(ctx context.Context, key string) (content []byte, etag string, err error)
	// Put answers with the new etag.
	Put(ctx context.Context, key string, content []byte, condition Condition) (etag string, err error)
	// List answers the keys below a prefix, sorted.
	List(ctx context.Context, prefix string) ([]string, error)
}
