/**
 * Each scheme against signatures that somebody else computed: the providers' own documents, the RFCs, and openssl where a
 * provider publishes no secret with its example. Pure functions, no server.
 */
import { describe, expect, it } from '@jest/globals';
import { github, hmacSignature, shopify, slack, standardWebhooks, stripe } from '../../../src/signature/index.js';

const valid = { valid: true };

describe('published signatures are accepted', () => {
  it("Standard Webhooks: the vector of the specification's own libraries", () => {
    const headers = {
      'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      'webhook-timestamp': '1614265330',
      'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    };
    const verifier = standardWebhooks({ secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'] });
    const rawBody = Buffer.from('{"test": 2432232314}');
    expect(verifier.verify({ headers, rawBody }, 1_614_265_330_000)).toEqual(valid);
  });

  it('GitHub: the values of "Validating webhook deliveries"', () => {
    const headers = {
      'x-hub-signature-256': 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17',
    };
    const verifier = github({ secrets: ["It's a Secret to Everybody"] });
    expect(verifier.verify({ headers, rawBody: Buffer.from('Hello, World!') }, 0)).toEqual(valid);
  });

  it('Slack: the example of "Verifying requests from Slack"', () => {
    const headers = {
      'x-slack-request-timestamp': '1531420618',
      'x-slack-signature': 'v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503',
    };
    const rawBody = Buffer.from(
      'token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V' +
        '&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=' +
        '&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN' +
        '&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c',
    );
    const verifier = slack({ secrets: ['8f742231b10e8888abcd99yyyzzz85a5'] });
    expect(verifier.verify({ headers, rawBody }, 1_531_420_618_000)).toEqual(valid);
  });

  // printf '%s' '1614265330.{...}' | openssl dgst -sha256 -hmac 'whsec_...'
  it('Stripe: a signature made with openssl, under the whole secret with its whsec_', () => {
    const headers = {
      'stripe-signature':
        't=1614265330,v1=3c2c2824550661f0851dc3b73845d351b1d81054bb89ce0801455b1984999d70,v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39',
    };
    const rawBody = Buffer.from('{"id":"evt_1PzT2e","object":"event","type":"invoice.paid"}');
    const verifier = stripe({ secrets: ['whsec_0f1e2d3c4b5a69788796a5b4c3d2e1f0'] });
    expect(verifier.verify({ headers, rawBody }, 1_614_265_330_000)).toEqual(valid);
  });

  // printf '%s' '{...}' | openssl dgst -sha256 -hmac 'shpss_...' -binary | base64
  it('Shopify: a signature made with openssl', () => {
    const headers = { 'x-shopify-hmac-sha256': 'atqjZOk4yza6HQ1Wko1VLOTMXKNGBzkn57drX6eC+54=' };
    const rawBody = Buffer.from('{"id":"evt_1PzT2e","object":"event","type":"invoice.paid"}');
    const verifier = shopify({ secrets: ['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'] });
    expect(verifier.verify({ headers, rawBody }, 0)).toEqual(valid);
  });

  it('Shopify: an example published with SQLPage', () => {
    const headers = { 'x-shopify-hmac-sha256': 'QNyObTlKbMx2qDlPF/ZOZcBqg5OgPg+2oky3zldc0Gw=' };
    const rawBody = Buffer.from('{"id":1234567890,"email":"customer@example.com","total_price":"123.45"}');
    expect(shopify({ secrets: ['test-webhook-secret'] }).verify({ headers, rawBody }, 0)).toEqual(valid);
  });

  // RFC 2202 (SHA-1) and RFC 4231 (the others), test case 1: a key of twenty bytes 0x0b.
  it.each([
    ['sha1', 'b617318655057264e28bc0b6fb378c8ef146be00'],
    ['sha256', 'b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7'],
    ['sha384', 'afd03944d84895626b0825f4ab46907f15f9dadbe4101ec682aa034c7cebc59cfaea9ea9076ede7f4af152e8b2fa9cb6'],
    [
      'sha512',
      '87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cdedaa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854',
    ],
  ] as const)('generic HMAC with %s: the RFC test case, in hex and in base64', (algorithm, hex) => {
    const secrets = [Buffer.alloc(20, 0x0b)];
    const rawBody = Buffer.from('Hi There');
    const inHex = hmacSignature({ secrets, header: 'x-mac', algorithm, encoding: 'hex' });
    expect(inHex.verify({ headers: { 'x-mac': hex }, rawBody }, 0)).toEqual(valid);
    expect(inHex.verify({ headers: { 'x-mac': hex.toUpperCase() }, rawBody }, 0)).toEqual(valid);
    const inBase64 = hmacSignature({ secrets, header: 'x-mac', algorithm, encoding: 'base64' });
    const base64 = Buffer.from(hex, 'hex').toString('base64');
    expect(inBase64.verify({ headers: { 'x-mac': base64 }, rawBody }, 0)).toEqual(valid);
  });
});
