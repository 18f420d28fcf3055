package pki

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// Claims of a registration token, in their order.
type Claims struct {
	Issuer     string `json:"iss"`
	Subject    string `json:"sub"`
	ExpiresAt  int64  `json:"exp"`
	NotBefore  int64  `json:"nbf"`
	IssuedAt   int64  `json:"iat"`
	ID         string `json:"jti"`
	Kind       string `json:"kind"`
	ConfigHash string `json:"config_hash"`
	ClusterID  string `json:"cluster_id"`
	Shard      string `json:"shard"`
	Group      string `json:"group"`
	OnDemand   bool   `json:"on_demand"`
	Tenant     string `json:"tenant"`
}

const (
	header    = `{"alg":"EdDSA","typ":"JWT"}`
	skew      = 30
	maxLife   = 24*3600 + 30
	maxLength = 4096
)

// SignToken fills in issuer, times and id.
func (a *Authority) SignToken(claims Claims, life time.Duration) (string, error) {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return "", err
	}
	now := time.Now().Unix()
	claims.Issuer, claims.ID, claims.ClusterID = "nstance-server", base64.RawURLEncoding.EncodeToString(id), a.ClusterID
	claims.IssuedAt, claims.NotBefore, claims.ExpiresAt = now-skew, now-skew, now+int64(life.Seconds())
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	signed := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString(payload)
	return signed + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(a.Tokens, []byte(signed))), nil
}

var errToken = errors.New("the token is not valid")

// VerifyToken checks size, shape, header, signature and claims, cheapest first.
func (a *Authority) VerifyToken(token, kind string, now time.Time) (*Claims, error) {
	if len(token) > maxLength {
		return nil, errToken
	}
	head, rest, _ := strings.Cut(token, ".")
	payload, signature, found := strings.Cut(rest, ".")
	if !found {
		return nil, errToken
	}
	rawHead, err := base64.RawURLEncoding.DecodeString(head)
	if err != nil || string(rawHead) != header {
		return nil, errToken
	}
	rawSignature, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil {
		return nil, errToken
	}
	signed := token[:len(head)+1+len(payload)]
	if !ed25519.Verify(a.Tokens.Public().(ed25519.PublicKey), []byte(signed), rawSignature) {
		return nil, errToken
	}
	rawPayload, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return nil, errToken
	}
	claims := &Claims{}
	if err := json.Unmarshal(rawPayload, claims); err != nil {
		return nil, errToken
	}
	at := now.Unix()
	valid := at < claims.ExpiresAt+skew && claims.NotBefore <= at+skew && claims.IssuedAt <= at+skew &&
		claims.ExpiresAt-claims.IssuedAt <= maxLife
	if !valid || claims.Kind != kind || claims.Subject == "" || claims.Tenant == "" || claims.ClusterID == "" {
		return nil, errToken
	}
	return claims, nil
}

// HashToken is what is kept of a token.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// VerifyProof checks a proof of possession.
func VerifyProof(token, cluster string, key ed25519.PublicKey, spki, proof []byte) bool {
	sum := sha256.Sum256([]byte(token))
	message := bytes.Join([][]byte{[]byte("nstance-join-v1\x00"), sum[:], []byte(cluster), {0}, spki}, nil)
	return ed25519.Verify(key, message, proof)
}
