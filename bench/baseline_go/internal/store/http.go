package store

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// HTTP speaks the part of S3's API that is needed, path style, without signatures: its other side is the stub
// of the benchmarks.
type HTTP struct {
	bucket string // "http://host:port/bucket"
	client *http.Client
}

// OpenHTTP keeps connections open, as many as are ever used at once.
func OpenHTTP(bucket string) *HTTP {
	return &HTTP{bucket: bucket, client: &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, IdleConnTimeout: time.Minute}}}
}

func (h *HTTP) do(ctx context.Context, method, key string, content []byte, condition Condition) (*http.Response, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, h.bucket+"/"+key, bytes.NewReader(content))
	if err != nil {
		return nil, nil, err
	}
	if condition.CreateOnly {
		request.Header.Set("If-None-Match", "*")
	}
	if condition.ETag != "" {
		request.Header.Set("If-Match", condition.ETag)
	}
	answer, err := h.client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer, body, err
}

// Get reads an object.
func (h *HTTP) Get(ctx context.Context, key string) ([]byte, string, error) {
	answer, body, err := h.do(ctx, http.MethodGet, key, nil, Condition{})
	if err != nil {
		return nil, "", err
	}
	switch answer.StatusCode {
	case http.StatusOK:
		return body, answer.Header.Get("ETag"), nil
	case http.StatusNotFound:
		return nil, "", ErrNotFound
	}
	return nil, "", fmt.Errorf("GET %s: %s", key, answer.Status)
}

// Put writes an object under its condition.
func (h *HTTP) Put(ctx context.Context, key string, content []byte, condition Condition) (string, error) {
	answer, _, err := h.do(ctx, http.MethodPut, key, content, condition)
	if err != nil {
		return "", err
	}
	switch answer.StatusCode {
	case http.StatusOK:
		return answer.Header.Get("ETag"), nil
	case http.StatusPreconditionFailed, http.StatusConflict:
		return "", ErrConflict
	}
	return "", fmt.Errorf("PUT %s: %s", key, answer.Status)
}

type listing struct {
	Contents []struct {
		Key string `xml:"Key"`
	} `xml:"Contents"`
	Next string `xml:"NextContinuationToken"`
}

// List reads all pages.
func (h *HTTP) List(ctx context.Context, prefix string) ([]string, error) {
	var keys []string
	for token := ""; ; {
		query := url.Values{"list-type": {"2"}, "prefix": {prefix}}
		if token != "" {
			query.Set("continuation-token", token)
		}
		answer, body, err := h.do(ctx, http.MethodGet, "?"+query.Encode(), nil, Condition{})
		if err != nil {
			return nil, err
		}
		if answer.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("LIST %s: %s", prefix, answer.Status)
		}
		var page listing
		if err := xml.Unmarshal(body, &page); err != nil {
			return nil, err
		}
		for _, entry := range page.Contents {
			keys = append(keys, entry.Key)
		}
		if token = page.Next; token == "" {
			return keys, nil
		}
	}
}
