// Command pay pays 42 USDC on Base by x402 version 2 without an x402 library, and prints the receipt's address. It is the Go
// program of docs/guides/agents.md. In a folder of its own:
//
//	go mod init pay && go get github.com/ethereum/go-ethereum@v1.17.10 && PAY_OFFER_KEY=0x… go run .
package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

const (
	url     = "https://pay.example.org/v1/sponsor"
	chainID = "8453"
	usdc    = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
	price   = "42000000"
)

type object = map[string]any

// must ends the program with an error. When it runs again, it sends the payment that it stored.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// post sends the request with the payment.
func post(payment []byte) *http.Response {
	request := must(http.NewRequest("POST", url, nil))
	request.Header.Set("PAYMENT-SIGNATURE", string(payment))
	return must(http.DefaultClient.Do(request))
}

// sign answers the quote with an EIP-3009 authorization of exactly the price, which EIP-712 signs.
func sign() []byte {
	var quote struct {
		Accepts              []object
		Resource, Extensions json.RawMessage
	}
	header := must(http.Post(url, "", nil)).Header.Get("PAYMENT-REQUIRED")
	must(0, json.Unmarshal(must(base64.StdEncoding.DecodeString(header)), &quote))
	key := must(crypto.ToECDSA(common.FromHex(os.Getenv("PAY_OFFER_KEY"))))
	from, until := crypto.PubkeyToAddress(key.PublicKey).Hex(), fmt.Sprint(time.Now().Unix()+300)
	nonce := make([]byte, 32)
	rand.Read(nonce)
	hash := func(text any) []byte { return crypto.Keccak256([]byte(fmt.Sprint(text))) }
	word := func(number any) []byte {
		n, _ := new(big.Int).SetString(fmt.Sprint(number), 0)
		return common.BigToHash(n).Bytes()
	}
	for _, terms := range quote.Accepts {
		if terms["network"] != "eip155:"+chainID || terms["asset"] != usdc || terms["amount"] != price {
			continue
		}
		token := terms["extra"].(object)
		domain := crypto.Keccak256(hash("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
			hash(token["name"]), hash(token["version"]), word(chainID), word(usdc))
		transfer := crypto.Keccak256(hash("TransferWithAuthorization(address from,address to,uint256 value,"+
			"uint256 validAfter,uint256 validBefore,bytes32 nonce)"),
			word(from), word(terms["payTo"]), word(price), word(0), word(until), nonce)
		signature := must(crypto.Sign(crypto.Keccak256([]byte("\x19\x01"), domain, transfer), key))
		signature[64] += 27
		payment := must(json.Marshal(object{
			"x402Version": 2, "resource": quote.Resource, "accepted": terms, "extensions": quote.Extensions,
			"payload": object{"signature": fmt.Sprintf("%#x", signature), "authorization": object{
				"from": from, "to": terms["payTo"], "value": price,
				"validAfter": "0", "validBefore": until, "nonce": fmt.Sprintf("%#x", nonce),
			}},
		}))
		return []byte(base64.StdEncoding.EncodeToString(payment))
	}
	log.Fatal("the quote is not 42 USDC on Base")
	return nil
}

func main() {
	if _, err := os.Stat("payment"); os.IsNotExist(err) {
		must(0, os.WriteFile("payment", sign(), 0o600))
	}
	payment := must(os.ReadFile("payment"))
	answer, end := post(payment), time.Now().Add(5*time.Minute)
	for ; answer.StatusCode == 429 || answer.StatusCode == 503; answer = post(payment) {
		var problem struct{ Detail string }
		json.NewDecoder(answer.Body).Decode(&problem) // a proxy may send none
		log.Print("status ", answer.StatusCode, ": ", problem.Detail)
		seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
		if err != nil {
			seconds = 5
		}
		wait := time.Duration(max(seconds, 1)) * time.Second
		if time.Now().Add(wait).After(end) {
			log.Fatal("run it again: the same payment is sent")
		}
		time.Sleep(wait)
	}
	body := must(io.ReadAll(answer.Body))
	var paid struct{ ReceiptURL string }
	if answer.StatusCode != 200 {
		log.Fatal(string(body))
	}
	must(0, json.Unmarshal(body, &paid))
	fmt.Println(paid.ReceiptURL)
}
