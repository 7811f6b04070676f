// What an analyst does with a client of node, by its name; one object of JSON is printed.
const fs = require('fs');

const [client, port, password, certificate] = process.argv.slice(2);
const ssl = { ca: fs.readFileSync(certificate) };
const where = { host: '127.0.0.1', port: Number(port), user: 'alice', password, database: 'dpsql', ssl };
const ASK = "SELECT * FROM dp_query('SELECT sex, count(*) AS n FROM adult GROUP BY sex', epsilon => 0.1)";

async function failure(promise) {
  try {
    await promise;
    return null;
  } catch (error) {
    return error.code || error.parent.code;
  }
}

const clients = {
  async pg() {
    const { Client } = require('pg');
    const Stream = require('pg-query-stream');
    const client = new Client(where);
    await client.connect();
    const asked = (await client.query(ASK)).rows;
    const any = (await client.query('SELECT i FROM shown WHERE i = ANY($1) ORDER BY i', [[1, 2]])).rows;
    const named = (await client.query({ text: 'SELECT * FROM shown WHERE i = $1', values: [3], name: 'one' })).rows[0];
    let streamed = 0;
    for await (const row of client.query(new Stream('SELECT i FROM shown', [], { batchSize: 100 }))) streamed += row.i >= 0;
    const wrong = await failure(client.query('SELECT nope FROM shown'));
    await client.end();
    return { asked, any, named, streamed, wrong };
  },

  async postgres() {
    // postgres.js prints notices where our answer goes, and the service sends one of each question that takes a while
    const sql = require('postgres')({ ...where, username: 'alice', onnotice: console.error });
    const asked = await sql.unsafe(ASK);
    const any = await sql`SELECT i FROM shown WHERE i = ANY(${[1, 2]}) ORDER BY i`;
    const named = (await sql`SELECT * FROM shown WHERE i IN ${sql([3])}`)[0];
    let streamed = 0;
    await sql`SELECT i FROM shown`.cursor(100, (rows) => { streamed += rows.length; });
    const wrong = await failure(sql`SELECT nope FROM shown`);
    const nested = await sql.begin('read only', async (outer) => {
      await failure(outer.savepoint((inner) => inner`SELECT nope FROM shown`));
      return outer`SELECT 1 AS x`;
    });
    await sql.end();
    return { asked, any, named, streamed, wrong, nested };
  },

  async sequelize() {
    const { Sequelize, DataTypes, QueryTypes, Op } = require('sequelize');
    const options = { ...where, dialect: 'postgres', dialectOptions: { ssl }, logging: false };
    const db = new Sequelize('dpsql', 'alice', password, options);
    await db.authenticate();
    const asked = await db.query(ASK, { type: QueryTypes.SELECT });
    const described = Object.keys(await db.getQueryInterface().describeTable('shown', { schema: 'main' }));
    const columns = { i: { type: DataTypes.BIGINT, primaryKey: true }, s: DataTypes.TEXT, whole: DataTypes.INTEGER };
    const Shown = db.define('shown', columns, { tableName: 'shown', timestamps: false });
    const any = await Shown.findAll({ attributes: ['i'], where: { whole: { [Op.in]: [1, 2] } }, order: [['i', 'ASC']], raw: true });
    const named = await db.transaction((transaction) => Shown.findOne({ where: { i: 3 }, transaction, raw: true }));
    const streamed = await Shown.count();
    const wrong = await failure(db.query('SELECT nope FROM shown'));
    await db.close();
    return { asked, any, named, streamed, wrong, described };
  },

  async knex() {
    const knex = require('knex')({ client: 'pg', connection: where });
    const asked = (await knex.raw(ASK)).rows;
    const any = await knex('shown').whereIn('whole', [1, 2]).orderBy('i').select('i');
    const named = await knex.transaction((inside) => inside('shown').where('i', 3).first());
    let streamed = 0;
    for await (const row of knex('shown').select('i').stream()) streamed += row.i >= 0;
    const wrong = await failure(knex('shown').select('nope'));
    const described = Object.keys(await knex('shown').columnInfo());
    const exists = await knex.schema.hasTable('shown');
    await knex.destroy();
    return { asked, any, named, streamed, wrong, described, exists };
  },
};

clients[client]().then((told) => console.log(JSON.stringify(told)));
