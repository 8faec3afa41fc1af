// The scripted model, which the doctor has, too.

export * from '../dist/doctor/model_server.js';
