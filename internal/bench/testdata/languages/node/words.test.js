const test = require('node:test');
const assert = require('node:assert');
const ms = require('ms');
const semver = require('semver');

test('a duration is read', () => assert.strictEqual(ms('2 days'), 172800000));
test('versions are ordered', () => assert.ok(semver.lt('1.2.3', '1.10.0')));
