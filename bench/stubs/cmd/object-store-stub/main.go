// object-store-stub is the object store of the benchmarks: S3's API as far as servers use it, in memory, with a
// latency that is scripted and counters of everything that was asked.
//
//	object-store-stub -listen 127.0.0.1:0 -addresses-file F [-latency 20ms] [-spread 0.5] [-seed 1] [-rate 0]
//
// Latency is constant, or with -spread s log-normal around it (sigma s, fixed seed). -rate limits requests per
// second; above it they are answered 503 SlowDown. Signatures are not checked. Conditional writes are atomic:
//
//	PUT /bucket/key      If-None-Match: *  or  If-Match: "etag"     200, 412
//	GET, HEAD, DELETE    If-Match on DELETE                         200, 204, 304, 404, 412
//	GET /bucket/?list-type=2&prefix=&continuation-token=&max-keys=&delimiter=
//	GET /-/counters      {"PUT instance 200": 12, ...}: method, key class (up to the first slash), status
//	POST /-/reset        counters to zero      POST /-/latency?is=50ms&spread=0      from now on
package main

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

type object struct {
	content  []byte
	etag     string
	modified time.Time
}

type stub struct {
	mutex    sync.Mutex
	objects  map[string]object // "bucket/key"
	counters map[string]int64
	latency  time.Duration
	spread   float64
	chance   *rand.Rand
	rate     float64
	tokens   float64
	filled   time.Time
}

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address")
	addresses := flag.String("addresses-file", "", "JSON object with `store`, the address really bound")
	latency := flag.Duration("latency", 0, "of every request")
	spread := flag.Float64("spread", 0, "sigma of a log-normal latency; 0: constant")
	seed := flag.Uint64("seed", 1, "of the latency")
	rate := flag.Float64("rate", 0, "requests per second; 0: no limit")
	flag.Parse()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	made := &stub{objects: map[string]object{}, counters: map[string]int64{}, latency: *latency, spread: *spread,
		chance: rand.New(rand.NewPCG(*seed, 0)), rate: *rate, tokens: *rate, filled: time.Now()}
	if *addresses != "" {
		text, _ := json.Marshal(map[string]string{"store": listener.Addr().String()})
		if err := os.WriteFile(*addresses+".new", text, 0o644); err != nil {
			log.Fatal(err)
		}
		if err := os.Rename(*addresses+".new", *addresses); err != nil {
			log.Fatal(err)
		}
	}
	log.Fatal(http.Serve(listener, made))
}

// answer is what a request gets, decided before anything is sent.
type answer struct {
	status  int
	etag    string
	changed time.Time
	kind    string
	body    []byte
}

// ServeHTTP does the work at once, under the lock, and answers after the latency: the order of effects is the
// order of arrival.
func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if rest, found := strings.CutPrefix(r.URL.Path, "/-/"); found {
		s.control(w, r, rest)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 16<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	path := strings.TrimPrefix(r.URL.Path, "/")
	bucket, key, _ := strings.Cut(path, "/")
	s.mutex.Lock()
	reply := s.handle(r, bucket, key, body)
	class, _, _ := strings.Cut(key, "/")
	if key == "" {
		class, _, _ = strings.Cut(r.URL.Query().Get("prefix"), "/")
		class = "list:" + class
	}
	s.counters[fmt.Sprintf("%s %s %d", r.Method, class, reply.status)]++
	wait := s.delay()
	s.mutex.Unlock()
	time.Sleep(wait)
	if reply.etag != "" {
		w.Header().Set("ETag", reply.etag)
	}
	if !reply.changed.IsZero() {
		w.Header().Set("Last-Modified", reply.changed.UTC().Format(http.TimeFormat))
	}
	if reply.kind != "" {
		w.Header().Set("Content-Type", reply.kind)
	}
	w.Header().Set("x-amz-request-id", "stub")
	w.Header().Set("Content-Length", strconv.Itoa(len(reply.body)))
	w.WriteHeader(reply.status)
	if r.Method != http.MethodHead {
		w.Write(reply.body)
	}
}

// delay draws the next latency. The lock is held.
func (s *stub) delay() time.Duration {
	if s.spread == 0 {
		return s.latency
	}
	return time.Duration(float64(s.latency) * math.Exp(s.spread*s.chance.NormFloat64()))
}

// limited counts a request against the rate. The lock is held.
func (s *stub) limited() bool {
	if s.rate == 0 {
		return false
	}
	now := time.Now()
	s.tokens = min(s.rate, s.tokens+now.Sub(s.filled).Seconds()*s.rate)
	s.filled = now
	if s.tokens < 1 {
		return true
	}
	s.tokens--
	return false
}

func failure(status int, code string) answer {
	text := fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>%s</Message></Error>`, code, code)
	return answer{status: status, kind: "application/xml", body: []byte(text)}
}

func (s *stub) handle(r *http.Request, bucket, key string, body []byte) answer {
	if s.limited() {
		return failure(http.StatusServiceUnavailable, "SlowDown")
	}
	name := bucket + "/" + key
	found, exists := s.objects[name]
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		if key == "" {
			return s.list(bucket, r.URL.Query())
		}
		if !exists {
			return failure(http.StatusNotFound, "NoSuchKey")
		}
		if match := r.Header.Get("If-None-Match"); match != "" && match == found.etag {
			return answer{status: http.StatusNotModified, etag: found.etag}
		}
		return answer{status: http.StatusOK, etag: found.etag, changed: found.modified, kind: "application/octet-stream", body: found.content}
	case http.MethodPut:
		if key == "" {
			return answer{status: http.StatusOK} // A bucket: there is nothing to make.
		}
		if refused, reply := precondition(r, found, exists); refused {
			return reply
		}
		sum := md5.Sum(body)
		made := object{content: body, etag: `"` + hex.EncodeToString(sum[:]) + `"`, modified: time.Now()}
		s.objects[name] = made
		return answer{status: http.StatusOK, etag: made.etag}
	case http.MethodDelete:
		if refused, reply := precondition(r, found, exists); refused && exists {
			return reply
		}
		delete(s.objects, name)
		return answer{status: http.StatusNoContent}
	}
	return failure(http.StatusMethodNotAllowed, "MethodNotAllowed")
}

func precondition(r *http.Request, found object, exists bool) (bool, answer) {
	if r.Header.Get("If-None-Match") == "*" && exists {
		return true, failure(http.StatusPreconditionFailed, "PreconditionFailed")
	}
	match := r.Header.Get("If-Match")
	if match == "" {
		return false, answer{}
	}
	if !exists {
		return true, failure(http.StatusNotFound, "NoSuchKey")
	}
	if match != found.etag {
		return true, failure(http.StatusPreconditionFailed, "PreconditionFailed")
	}
	return false, answer{}
}

type listEntry struct {
	Key          string
	LastModified string
	ETag         string
	Size         int
	StorageClass string
}

type listPrefix struct{ Prefix string }

type listAnswer struct {
	XMLName               xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListBucketResult"`
	Name                  string
	Prefix                string
	KeyCount              int
	MaxKeys               int
	IsTruncated           bool
	Contents              []listEntry
	CommonPrefixes        []listPrefix
	NextContinuationToken string `xml:",omitempty"`
}

// list answers one page; the token is the last key, encoded.
func (s *stub) list(bucket string, query url.Values) answer {
	most := 1000
	if text := query.Get("max-keys"); text != "" {
		if given, err := strconv.Atoi(text); err == nil && given > 0 && given < most {
			most = given
		}
	}
	after, err := base64.RawURLEncoding.DecodeString(query.Get("continuation-token"))
	if err != nil {
		return failure(http.StatusBadRequest, "InvalidArgument")
	}
	prefix, delimiter := query.Get("prefix"), query.Get("delimiter")
	var keys []string
	for name := range s.objects {
		key, found := strings.CutPrefix(name, bucket+"/")
		if found && strings.HasPrefix(key, prefix) && key > max(string(after), query.Get("start-after")) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	page := listAnswer{Name: bucket, Prefix: prefix, MaxKeys: most}
	for _, key := range keys {
		if page.KeyCount == most {
			page.IsTruncated = true
			break
		}
		shown := key
		if at := strings.Index(key[len(prefix):], delimiter); delimiter != "" && at >= 0 {
			shown = key[:len(prefix)+at+len(delimiter)]
			if n := len(page.CommonPrefixes); n > 0 && page.CommonPrefixes[n-1].Prefix == shown {
				page.NextContinuationToken = base64.RawURLEncoding.EncodeToString([]byte(key))
				continue
			}
			page.CommonPrefixes = append(page.CommonPrefixes, listPrefix{shown})
		} else {
			of := s.objects[bucket+"/"+key]
			page.Contents = append(page.Contents, listEntry{Key: key, LastModified: of.modified.UTC().Format("2006-01-02T15:04:05.000Z"),
				ETag: of.etag, Size: len(of.content), StorageClass: "STANDARD"})
		}
		page.KeyCount++
		page.NextContinuationToken = base64.RawURLEncoding.EncodeToString([]byte(key))
	}
	if !page.IsTruncated {
		page.NextContinuationToken = ""
	}
	text, err := xml.Marshal(page)
	if err != nil {
		return failure(http.StatusInternalServerError, "InternalError")
	}
	return answer{status: http.StatusOK, kind: "application/xml", body: append([]byte(xml.Header), text...)}
}

func (s *stub) control(w http.ResponseWriter, r *http.Request, what string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch {
	case what == "counters" && r.Method == http.MethodGet:
		json.NewEncoder(w).Encode(s.counters)
	case what == "reset" && r.Method == http.MethodPost:
		s.counters = map[string]int64{}
	case what == "latency" && r.Method == http.MethodPost:
		length, err := time.ParseDuration(r.URL.Query().Get("is"))
		spread, spreadErr := strconv.ParseFloat("0"+r.URL.Query().Get("spread"), 64)
		if err != nil || spreadErr != nil {
			http.Error(w, "is: a duration; spread: a number", http.StatusBadRequest)
			return
		}
		s.latency, s.spread = length, spread
	default:
		http.NotFound(w, r)
	}
}
